# Required packages of Debian 12, each with a file that shows that it is installed. One error lists all missing packages.
# `./leat` installs deploy/apt-packages.txt, and of apt-packages-*.txt what tests, benchmarks and the Python package need.

set(leat_headers
    boost/asio/ip/tcp.hpp libboost-dev
    dnnl.hpp libdnnl-dev
    grpcpp/grpcpp.h libgrpc++-dev
    google/protobuf/message.h libprotobuf-dev
    openssl/ssl.h libssl-dev
    sqlite3.h libsqlite3-dev
    yaml-cpp/yaml.h libyaml-cpp-dev
    CLI/CLI.hpp libcli11-dev
    spdlog/spdlog.h libspdlog-dev
    simdjson.h libsimdjson-dev
    nlohmann/json.hpp nlohmann-json3-dev
    ucp/api/ucp.h libucx-dev
    xxhash.h libxxhash-dev
    librdkafka/rdkafka.h librdkafka-dev
    curl/curl.h libcurl4-openssl-dev
    expat.h libexpat1-dev
    zlib.h zlib1g-dev)
if(LEAT_TESTS)
  list(APPEND leat_headers gtest/gtest.h libgtest-dev gmock/gmock.h libgmock-dev)
endif()

set(missing "")
while(leat_headers)
  list(POP_FRONT leat_headers header package)
  string(MAKE_C_IDENTIFIER "LEAT_HAS_${header}" found)
  find_path(${found} ${header})
  mark_as_advanced(${found})
  if(NOT ${found})
    list(APPEND missing ${package})
  endif()
endwhile()
find_program(LEAT_PROTOC protoc)
if(NOT LEAT_PROTOC)
  list(APPEND missing protobuf-compiler)
endif()
find_file(LEAT_CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH)
if(NOT LEAT_CHART_JS)
  list(APPEND missing libjs-chart.js)
endif()
if(LEAT_PYTHON_MODULE AND NOT LEAT_SANITIZE)
  file(GLOB pythons /usr/include/python3.*)
  find_path(LEAT_PYTHON_INCLUDE Python.h PATHS ${pythons} NO_DEFAULT_PATH)
  if(NOT LEAT_PYTHON_INCLUDE)
    list(APPEND missing python3-dev)
  endif()
endif()
mark_as_advanced(LEAT_PROTOC LEAT_CHART_JS LEAT_PYTHON_INCLUDE)
if(missing)
  list(REMOVE_DUPLICATES missing)
  list(JOIN missing " " missing)
  message(FATAL_ERROR "missing: apt-get install ${missing}")
endif()
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
