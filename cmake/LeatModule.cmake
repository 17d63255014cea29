# Each folder is one target and one layer.
#
#   leat_module(NAME base DEPS <house targets> LIBS <libraries from outside>
#               TEST_DEPS <house targets> TEST_LIBS <libraries> LINK_ONLY <dep> "<reason>" ...
#               REPLACED <patterns> ALONE <patterns> [CONCURRENT] [COLD] [FAMILIES | CONCERNS <subfolders>] PURPOSE "<one line>")
#
# builds the static library leat_<name> from every x.cc of the folder, and the test program <name>_test from every x_test.cc. Sources are
# globbed, so no test can be forgotten. `tools/check_layers.py` checks the includes against DEPS and TEST_DEPS, and generates the table in
# docs/architecture.md from DEPS and PURPOSE.
#
#   LINK_ONLY   dependencies that no include uses, each with the reason why it is linked
#   REPLACED    sources whose symbols a test replaces by its own: each is compiled alone, so that linking one does not pull in another
#   ALONE       sources of inner loops: in a batch, whose growth by inlining g++ limits as a whole, they would be a sixth slower
#   COLD        no loop over events, gradients or simulated messages is in the folder: it is compiled with -O1, in three quarters of the time
#   CONCURRENT  the folder uses threads, so its tests also run under ThreadSanitizer
#   CONCURRENT_TESTS  patterns of the tests that start threads, if few do: ThreadSanitizer finds nothing in the others
#   FIGURE_TESTS      files of the tests about figures of long simulated runs: AddressSanitizer finds nothing in them that others do not show
#   FAMILIES    sources of subfolders without a CMakeLists.txt belong to the target
#   CONCERNS    like FAMILIES; a subfolder may include its own headers, the root's, and those of the subfolders before it in this list

find_package(Threads REQUIRED)
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/tools/compiler_launcher)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ collects garbage from 128 MB on, a sixth of its time for a batch. Without that a batch takes up to 1.9 GB, not 1.4.
  add_compile_options(--param=ggc-min-heapsize=1048576)
endif()

# Requirements of the headers, which pass on to their users.
add_library(leat_usage INTERFACE)
target_compile_features(leat_usage INTERFACE cxx_std_20)
target_include_directories(leat_usage INTERFACE
  "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src;${CMAKE_BINARY_DIR}/src>" $<INSTALL_INTERFACE:include> $<INSTALL_INTERFACE:include/leat>)
target_link_libraries(leat_usage INTERFACE Threads::Threads)

# Compiler flags of our own sources and programs.
add_library(leat_flags INTERFACE)
target_link_libraries(leat_flags INTERFACE leat_usage)
target_compile_options(leat_flags INTERFACE -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False positives of g++ 12: overlaps in std::string's operator+ (GCC bug 105651), and uninitialised members of std::variant and
  # std::optional (bugs 80635, 105562). The sanitizer builds find real ones.
  target_compile_options(leat_flags INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ takes a source in a batch for a header, and a class of it that has members of unnamed namespaces for one class in many sources.
  # A local may have the name of another source's constant.
  target_compile_options(leat_flags INTERFACE -Wno-subobject-linkage -Wno-shadow -Wshadow=local)
endif()
if(NOT LEAT_SANITIZE)
  # The Python module is a shared library of the same objects. With hidden symbols they call each other directly, as in a program.
  target_compile_options(leat_flags INTERFACE -fPIC -fvisibility=hidden -fvisibility-inlines-hidden)
endif()
if(LEAT_SANITIZE)
  target_compile_options(leat_flags INTERFACE -fsanitize=${LEAT_SANITIZE} -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # With sanitizer instrumentation, g++ has false positives about initialisation and string lengths. The release build keeps these
    # warnings.
    target_compile_options(leat_flags INTERFACE -Wno-maybe-uninitialized -Wno-array-bounds)
  else()
    # Warnings that only clang has: the temporary buffers of libstdc++'s stable_sort, shadowed structured bindings, g++'s pragmas, and
    # loops that are not vectorised at -O1.
    target_compile_options(leat_flags INTERFACE -Wno-deprecated-declarations -Wno-shadow -Wno-unknown-pragmas -Wno-pass-failed)
    # ccache returns a precompiled header that it has, after an update of system packages, too: by contents, not by times.
    target_compile_options(leat_flags INTERFACE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  target_link_options(leat_flags INTERFACE -fsanitize=${LEAT_SANITIZE})
  target_compile_definitions(leat_flags INTERFACE LEAT_SANITIZED=1)
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  target_link_options(leat_flags INTERFACE -fuse-ld=mold)
endif()

# Symbolizes the reports of clang's sanitizers.
find_program(LLVM_SYMBOLIZER NAMES llvm-symbolizer-19 llvm-symbolizer)
mark_as_advanced(LLVM_SYMBOLIZER)

# Prefix of test names, so that one run of ctest can include several builds.
set(leat_test_prefix "")
if(LEAT_SANITIZE STREQUAL "thread")
  set(leat_test_prefix "tsan.")
elseif(LEAT_SANITIZE)
  set(leat_test_prefix "asan.")
endif()

# ThreadSanitizer's shadow memory needs a fixed address layout, which some kernels' randomisation breaks.
set(leat_run_prefix "")
if(LEAT_SANITIZE STREQUAL "thread")
  execute_process(COMMAND setarch -R true RESULT_VARIABLE setarch_fails OUTPUT_QUIET ERROR_QUIET)
  if(NOT setarch_fails)
    set(leat_run_prefix setarch -R)
  endif()
endif()

# Test code is optimised less, or not at all in sanitizer builds: it takes most of the build time, and little of the run time.
set(leat_test_options -O1)
# Coverage instrumentation for the fuzzers, in all sources of a module.
set(leat_module_options "")
if(LEAT_SANITIZE)
  set(leat_test_options -O0)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13 AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  # With a precompiled header, g++ 12 no longer knows that these warnings are about a system header.
  set(leat_module_options -Wno-array-bounds -Wno-stringop-overread -Wno-stringop-overflow)
  list(APPEND leat_test_options ${leat_module_options})
endif()
if(LEAT_FUZZ)
  set(leat_module_options -fsanitize=fuzzer-no-link)
endif()

# leat_precompiled(TARGET OPTIONS <compile options> LIBS <libraries> HEADERS <headers>) precompiles system headers that most sources
# include. The plain preset goes without, and without batches, so that missing includes fail it.
function(leat_precompiled target)
  cmake_parse_arguments(P "" "" "OPTIONS;LIBS;HEADERS" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/${target}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${target} OBJECT ${source})
  target_link_libraries(${target} PUBLIC leat_flags ${P_LIBS})
  target_compile_options(${target} PRIVATE ${P_OPTIONS})
  target_precompile_headers(${target} PRIVATE ${P_HEADERS})
endfunction()
set(headers <algorithm> <array> <chrono> <cstdint> <cstring> <deque> <functional> <map> <memory> <optional> <set> <span>
  <stdexcept> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
leat_precompiled(leat_headers OPTIONS ${leat_module_options} HEADERS ${headers})
if(NOT LEAT_SANITIZE)
  # g++ takes the level of optimisation from the precompiled header, whatever its command line says.
  leat_precompiled(leat_cold_headers OPTIONS ${leat_module_options} -O1 HEADERS ${headers})
endif()

# leat_compiled(TARGET [COLD]): the options and the precompiled header of a target with sources that are no tests.
function(leat_compiled target)
  if("COLD" IN_LIST ARGN AND TARGET leat_cold_headers)
    target_compile_options(${target} PRIVATE ${leat_module_options} -O1)
    target_precompile_headers(${target} REUSE_FROM leat_cold_headers)
  else()
    target_compile_options(${target} PRIVATE ${leat_module_options})
    target_precompile_headers(${target} REUSE_FROM leat_headers)
  endif()
endfunction()

if(LEAT_TESTS)
  find_package(GTest REQUIRED)
  leat_precompiled(leat_test_headers OPTIONS ${leat_test_options} LIBS GTest::gtest GTest::gmock
    HEADERS ${headers} <gtest/gtest.h> <gmock/gmock.h>)
endif()

# Builds all test programs of this build.
add_custom_target(unit_tests)

# Linked into each test program: LEAT_REQUIRE_ALL=1 turns skips into failures.
if(LEAT_TESTS)
  add_library(leat_require_all OBJECT ${CMAKE_SOURCE_DIR}/tests/require_all/require_all.cc)
  target_link_libraries(leat_require_all PRIVATE leat_flags)
endif()

set(LEAT_ALONE "" CACHE STRING "sources, by their paths from the root, that are compiled outside of their batches (./leat test --changed)")

# leat_batches(TARGET) divides the sources of a target into batches for unity builds. The batches are fixed: a source that is compiled
# alone moves no other source to another batch.
function(leat_batches target)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(number 0)
  foreach(source IN LISTS sources)
    math(EXPR batch "${number} / ${CMAKE_UNITY_BUILD_BATCH_SIZE}")
    math(EXPR number "${number} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${batch})
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    if(path IN_LIST LEAT_ALONE)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

function(leat_module)
  cmake_parse_arguments(PARSE_ARGV 0 M "CONCURRENT;COLD;FAMILIES" "NAME;PURPOSE"
                        "CONCERNS;DEPS;LIBS;TEST_DEPS;TEST_LIBS;CONCURRENT_TESTS;FIGURE_TESTS;LINK_ONLY;REPLACED;ALONE")
  set(patterns ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(M_FAMILIES OR M_CONCERNS)
    list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/*/*.cc ${CMAKE_CURRENT_SOURCE_DIR}/*/*/*.cc)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  file(GLOB others CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  foreach(other IN LISTS others)
    cmake_path(GET other PARENT_PATH other)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${other}/")
  endforeach()
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(M_CONCURRENT_TESTS AND LEAT_SANITIZE STREQUAL "thread")
    list(TRANSFORM M_CONCURRENT_TESTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    file(GLOB tests CONFIGURE_DEPENDS ${M_CONCURRENT_TESTS})
  endif()
  if(M_FIGURE_TESTS AND LEAT_SANITIZE)
    list(TRANSFORM M_FIGURE_TESTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    list(REMOVE_ITEM tests ${M_FIGURE_TESTS})
  endif()
  set(deps ${M_DEPS})
  list(TRANSFORM deps PREPEND leat_)
  if(sources)
    add_library(leat_${M_NAME} STATIC ${sources})
    leat_batches(leat_${M_NAME})
    target_link_libraries(leat_${M_NAME} PUBLIC leat_usage ${deps} PRIVATE $<BUILD_INTERFACE:leat_flags> ${M_LIBS})
    set(cold "")
    if(M_COLD)
      set(cold COLD)
    endif()
    leat_compiled(leat_${M_NAME} ${cold})
    set(single ${M_REPLACED} ${M_ALONE})
    list(TRANSFORM single PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    if(single)
      file(GLOB single CONFIGURE_DEPENDS ${single})
      set_source_files_properties(${single} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  else()
    add_library(leat_${M_NAME} INTERFACE)
    target_link_libraries(leat_${M_NAME} INTERFACE leat_usage ${deps} ${M_LIBS})
  endif()
  if(LEAT_TESTS AND tests)
    set(test_deps ${M_TEST_DEPS})
    list(TRANSFORM test_deps PREPEND leat_)
    set(labels "")
    if(M_CONCURRENT)
      set(labels tsan)
    endif()
    leat_test(NAME ${M_NAME}_test SOURCES ${tests} LIBS leat_${M_NAME} ${test_deps} ${M_LIBS} ${M_TEST_LIBS}
              LABELS ${labels})
  endif()
endfunction()

# leat_test(...) adds a GoogleTest program; leat_module calls it once per folder. Each case is a ctest test, except under a sanitizer,
# whose start takes longer than most cases: there a program is one test, such as asan.base_test. ThreadSanitizer builds include only
# programs with the label tsan.
#
# Suites whose name ends in Long have the label long: `./leat test --long` runs them and `./leat test` does not. Cases that run more
# seeds in the long tier call LongTier() of base/testing.h.
#
# intercept_tls_get_addr=0: otherwise ThreadSanitizer guesses the size of the thread-local memory of loaded libraries, and aborts the
# test if the guess is wrong.
function(leat_test)
  cmake_parse_arguments(T "" "NAME" "SOURCES;LIBS;LABELS" ${ARGN})
  if(LEAT_SANITIZE STREQUAL "thread" AND NOT "tsan" IN_LIST T_LABELS)
    return()
  endif()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${T_NAME} ${T_SOURCES})
  leat_batches(${T_NAME})
  target_link_libraries(${T_NAME} PRIVATE leat_flags leat_require_all ${T_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(${T_NAME} PRIVATE ${leat_test_options})
  target_precompile_headers(${T_NAME} REUSE_FROM leat_test_headers)
  add_dependencies(unit_tests ${T_NAME})
  set(long_suites "")
  foreach(source ${T_SOURCES})
    file(STRINGS ${source} found REGEX "^TEST(_F|_P)?\\([A-Za-z0-9]+Long,")
    list(APPEND long_suites ${found})
  endforeach()
  if(LEAT_SANITIZE)
    set(test ${leat_test_prefix}${T_NAME})
    set(command ${leat_run_prefix} $<TARGET_FILE:${T_NAME}> --gtest_brief=1)
    set(cases --gtest_output=json:${CMAKE_BINARY_DIR}/cases)  # tools/run_tests.py reads them
    add_test(NAME ${test} COMMAND ${command} --gtest_filter=-*Long.* ${cases}/${test}.json)
    set_tests_properties(${test} PROPERTIES TIMEOUT 2700 LABELS sanitizer COST 200)
    if(long_suites)
      add_test(NAME ${test}.long COMMAND ${command} --gtest_filter=*Long.* ${cases}/${test}.long.json)
      set_tests_properties(${test}.long PROPERTIES TIMEOUT 3600 LABELS "sanitizer;long")
      list(APPEND test ${test}.long)
    endif()
    set_tests_properties(${test} PROPERTIES ENVIRONMENT
      "ASAN_SYMBOLIZER_PATH=${LLVM_SYMBOLIZER};ASAN_OPTIONS=detect_stack_use_after_return=1;UBSAN_OPTIONS=print_stacktrace=1;TSAN_OPTIONS=halt_on_error=1 second_deadlock_stack=1 intercept_tls_get_addr=0 ignore_noninstrumented_modules=1 suppressions=${CMAKE_SOURCE_DIR}/tools/tsan.supp")
    return()
  endif()
  gtest_discover_tests(${T_NAME} DISCOVERY_MODE PRE_TEST TEST_PREFIX ${T_NAME}. TEST_FILTER -*Long.*
    PROPERTIES TIMEOUT 300 LABELS "unit;${T_LABELS}")
  if(long_suites)
    gtest_discover_tests(${T_NAME} DISCOVERY_MODE PRE_TEST TEST_PREFIX ${T_NAME}. TEST_FILTER *Long.* TEST_LIST ${T_NAME}_LONG
      PROPERTIES TIMEOUT 3600 LABELS long)  # a single label: only the first of a list would be kept
  endif()
endfunction()
