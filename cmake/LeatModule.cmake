# One folder is one target is one layer.
#
#   leat_module(NAME base DEPS <house targets> LIBS <libraries from outside>
#               TEST_DEPS <house targets> TEST_LIBS <libraries> LINK_ONLY <dep> "<reason>" ...
#               [CONCURRENT] [FAMILIES | ISOLATED] PURPOSE "<one line>")
#
# makes the static library leat_<name> from every x.cc of the folder, and the test program <name>_test from
# every x_test.cc. Sources are found by themselves, so no test can be forgotten. The calls are the one source of the layers:
# `tools/check_layers.py` checks the includes against DEPS and TEST_DEPS, and writes the table in docs/architecture.md from them and
# PURPOSE. LINK_ONLY: dependencies that no include uses, and why they are linked. CONCURRENT: there are threads in this folder, so its
# tests also run under ThreadSanitizer. FAMILIES: sources of subfolders belong to the target as well. ISOLATED: likewise, and a subfolder
# includes its own headers and those of the root, never those of another subfolder.

find_package(Threads REQUIRED)
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # With paths relative to the checkout, every build directory (and a fresh clone) finds what another one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
endif()

add_library(leat_flags INTERFACE)
target_compile_options(leat_flags INTERFACE -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlaps in std::string's operator+ that cannot be there (GCC bug 105651), and reads of the members that
  # a std::variant or std::optional does not hold (bugs 80635, 105562). The sanitizer builds see the real ones.
  target_compile_options(leat_flags INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
target_include_directories(leat_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/src)
target_link_libraries(leat_flags INTERFACE Threads::Threads)
if(LEAT_SANITIZE)
  # Between the checks that a sanitizer puts in, g++ loses sight of what is initialised; the release build sees it.
  target_compile_options(leat_flags INTERFACE -fsanitize=${LEAT_SANITIZE} -fno-sanitize-recover=all
    -Wno-maybe-uninitialized)
  target_link_options(leat_flags INTERFACE -fsanitize=${LEAT_SANITIZE})
  target_compile_definitions(leat_flags INTERFACE LEAT_SANITIZED=1)
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  target_link_options(leat_flags INTERFACE -fuse-ld=mold)
endif()

# What names of tests begin with, so that one run of ctest can hold those of several builds.
set(leat_test_prefix "")
if(LEAT_SANITIZE STREQUAL "thread")
  set(leat_test_prefix "tsan.")
elseif(LEAT_SANITIZE)
  set(leat_test_prefix "asan.")
endif()

# ThreadSanitizer needs the addresses that its shadow was laid out for; some kernels randomise beyond them.
set(leat_run_prefix "")
if(LEAT_SANITIZE STREQUAL "thread")
  execute_process(COMMAND setarch -R true RESULT_VARIABLE setarch_fails OUTPUT_QUIET ERROR_QUIET)
  if(NOT setarch_fails)
    set(leat_run_prefix setarch -R)
  endif()
endif()

# All test programs that this build has a use for.
add_custom_target(unit_tests)

# A part of each: LEAT_REQUIRE_ALL=1 turns skips into failures.
if(LEAT_TESTS)
  add_library(leat_require_all OBJECT ${CMAKE_SOURCE_DIR}/tests/require_all/require_all.cc)
  target_link_libraries(leat_require_all PRIVATE leat_flags)
endif()

function(leat_module)
  cmake_parse_arguments(PARSE_ARGV 0 M "CONCURRENT;FAMILIES;ISOLATED" "NAME;PURPOSE" "DEPS;LIBS;TEST_DEPS;TEST_LIBS;LINK_ONLY")
  set(patterns ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(M_FAMILIES OR M_ISOLATED)
    list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/*/*.cc)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(deps ${M_DEPS})
  list(TRANSFORM deps PREPEND leat_)
  if(sources)
    add_library(leat_${M_NAME} STATIC ${sources})
    target_link_libraries(leat_${M_NAME} PUBLIC leat_flags ${deps} PRIVATE ${M_LIBS})
  else()
    add_library(leat_${M_NAME} INTERFACE)
    target_link_libraries(leat_${M_NAME} INTERFACE leat_flags ${deps} ${M_LIBS})
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

# A GoogleTest program (leat_module makes one a folder). ctest lists its cases one by one; under a sanitizer, whose
# start costs more than most cases, it is one test: asan.base_test. Under ThreadSanitizer only what has the label
# tsan is built. It is told to leave __tls_get_addr alone: thread-local memory of a loaded library that lies 16 bytes
# behind a page's begin it takes for that of an old glibc, and whatever is before it for its size, which ends the test.
function(leat_test)
  cmake_parse_arguments(T "" "NAME" "SOURCES;LIBS;LABELS" ${ARGN})
  if(LEAT_SANITIZE STREQUAL "thread" AND NOT "tsan" IN_LIST T_LABELS)
    return()
  endif()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${T_NAME} ${T_SOURCES})
  target_link_libraries(${T_NAME} PRIVATE leat_flags leat_require_all ${T_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  add_dependencies(unit_tests ${T_NAME})
  if(LEAT_SANITIZE)
    set(test ${leat_test_prefix}${T_NAME})
    add_test(NAME ${test} COMMAND ${leat_run_prefix} $<TARGET_FILE:${T_NAME}> --gtest_brief=1)
    set_tests_properties(${test} PROPERTIES TIMEOUT 900 LABELS sanitizer ENVIRONMENT
      "ASAN_OPTIONS=detect_stack_use_after_return=1;UBSAN_OPTIONS=print_stacktrace=1;TSAN_OPTIONS=halt_on_error=1 second_deadlock_stack=1 intercept_tls_get_addr=0 ignore_noninstrumented_modules=1 suppressions=${CMAKE_SOURCE_DIR}/tools/tsan.supp")
    return()
  endif()
  gtest_discover_tests(${T_NAME} DISCOVERY_MODE PRE_TEST TEST_PREFIX ${T_NAME}.
    PROPERTIES TIMEOUT 300 LABELS "unit;${T_LABELS}")
endfunction()
