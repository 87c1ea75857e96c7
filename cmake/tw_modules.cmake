# SPDX-License-Identifier: Apache-2.0
#
# The functions by which every folder declares its libraries and tests.
#
#   tw_add_module(<name> SOURCES a.cpp ... [DEPENDS tw_base ...] [LIBS fmt::fmt ...] [QUICK])
#     Adds a static, position independent library tw_<name>. DEPENDS are modules and are linked publicly,
#     because the headers of <name> include their headers. LIBS are third-party libraries and are linked
#     privately, because only sources include their headers. A module without sources is an interface
#     library. QUICK means -O1: less time to compile, but slower code. It is for modules in which neither
#     searches nor kernels spend their time.
#
#   tw_add_test(<module> SOURCES x_test.cpp ... [SUFFIX slow] [DEPENDS tw_<module> ...] [LIBS ...]
#               [LABELS slow] [IN_ONE_PROCESS <name> <filter>])
#     Adds a GoogleTest executable <module>_test, or <module>_<suffix>_test. Each of its cases is a ctest
#     test with the given labels; "unit" if none is given. A second call for a module needs a SUFFIX. If
#     LABELS is given without a SUFFIX, the first label becomes the suffix. Cases that match the filter of
#     IN_ONE_PROCESS run in one process, as one ctest test <module>.<name> (or <module>_<suffix>.<name>).
#     They share a fixture that is expensive to start, such as a server.
#
#   tw_add_isa_tests(<name> COMMAND <command> ... [LABELS unit] [ENVIRONMENT a=b ...])
#     Adds the tests <name>.avx2 and <name>.sse41 with the label "isa" for code that depends on
#     host_target(). They run the command with the variable TILEWRIGHT_MAX_ISA, which makes the program
#     behave as on a processor with fewer features. Usually only the next instruction set below the
#     processor's own runs: <name>.avx2 on a processor with AVX-512, and <name>.sse41 on a processor with
#     AVX2, where the plain test already runs under AVX2. The other test is skipped. If TILEWRIGHT_MAX_ISA is already set, its value counts as the
#     processor's own instruction set. With TW_NIGHTLY both tests run (tests/under_isa.cpp). If the command is
#     a GoogleTest executable, all its cases run in one process; choose cases by --gtest_filter.

include_guard(GLOBAL)

# Some tests have the property COST, roughly their time in seconds. ctest starts tests with a high COST first,
# so that no long test runs alone at the end.

# Seconds after which a test counts as stuck. This is many times the time of the longest test on a busy machine.
# Sanitizers make programs several times slower.
set(TW_TEST_TIMEOUT 1200)
if(TW_SANITIZE)
  set(TW_TEST_TIMEOUT 3600)
endif()

# tw_together(<variable> <target> a.cpp ...): sets the variable to the files to compile in place of these
# sources. Each of these files includes up to TW_TOGETHER sources, so that common headers are parsed only once.
# So names in the unnamed namespaces of a target's sources must differ. Sources with an absolute path, such as
# generated sources, are compiled by themselves, and so are sources for which COMPILE_OPTIONS or
# SKIP_UNITY_BUILD_INCLUSION was set before this call. CMake's unity builds do the same, but with absolute paths.
# With absolute paths, the compiler cache could not be used by clones in other folders.
function(tw_together variable target)
  set(result)
  set(includes)
  set(files 0)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}
             OUTPUT_VARIABLE folder)
  list(LENGTH ARGN left)
  foreach(source IN LISTS ARGN)
    math(EXPR left "${left} - 1")
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(apart ${source} SKIP_UNITY_BUILD_INCLUSION)
    cmake_path(IS_ABSOLUTE source is_absolute)
    if(NOT TW_TOGETHER OR is_absolute OR options OR apart)
      list(APPEND result ${source})
    else()
      list(APPEND includes "#include \"${folder}/${source}\"")
    endif()
    list(LENGTH includes count)
    if(count AND (count EQUAL TW_TOGETHER OR left EQUAL 0))
      set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_${files}.cpp)
      list(JOIN includes "\n" text)
      file(CONFIGURE OUTPUT ${file} CONTENT "${text}\n" @ONLY)
      list(APPEND result ${file})
      math(EXPR files "${files} + 1")
      set(includes)
    endif()
  endforeach()
  set(${variable} ${result} PARENT_SCOPE)
endfunction()

# tw_optimize(<target> <level>): optimizes the target at -O<level> in the configuration Release. Compiling eight
# sources of the tuner together took 34 s at -O3, 24 s at -O2 and 18 s at -O1. Eight tests of codegen took
# 34 s at -O1 and 20 s at -O0 (GCC 12, Zen 3).
function(tw_optimize target level)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O${level}>)
endfunction()

function(tw_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "QUICK" "" "SOURCES;DEPENDS;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "[tw_add_module] ${name}: unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target tw_${name})
  if(NOT arg_SOURCES)
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} INTERFACE ${arg_DEPENDS} ${arg_LIBS})
    return()
  endif()
  tw_together(sources ${target} ${arg_SOURCES})
  add_library(${target} STATIC ${sources})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PUBLIC ${arg_DEPENDS} PRIVATE tw_options ${arg_LIBS})
  if(arg_QUICK)
    tw_optimize(${target} 1)
  else()
    tw_optimize(${target} 2)
  endif()
endfunction()

function(tw_add_test module)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SUFFIX" "SOURCES;DEPENDS;LIBS;LABELS;IN_ONE_PROCESS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "[tw_add_test] ${module}: unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_SUFFIX AND arg_LABELS)
    list(GET arg_LABELS 0 arg_SUFFIX)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  set(suite ${module})
  if(arg_SUFFIX)
    set(suite ${module}_${arg_SUFFIX})
  endif()
  set(target ${suite}_test)
  tw_together(sources ${target} ${arg_SOURCES})
  if(TW_SANITIZE)
    list(APPEND sources ${PROJECT_SOURCE_DIR}/tests/suppressions.cpp)
  endif()
  add_executable(${target} ${sources})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE tw_options ${arg_DEPENDS} ${arg_LIBS}
                                          GTest::gmock GTest::gtest GTest::gtest_main)
  tw_optimize(${target} 0)  # compiling a test takes longer than running it
  set(filter)
  if(arg_IN_ONE_PROCESS)
    list(GET arg_IN_ONE_PROCESS 0 name)
    list(GET arg_IN_ONE_PROCESS 1 together)
    add_test(NAME ${suite}.${name} COMMAND ${target} --gtest_brief=1 --gtest_filter=${together})
    set_tests_properties(${suite}.${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${TW_TEST_TIMEOUT})
    set(filter TEST_FILTER "-${together}")
  endif()
  # PRE_TEST lists the cases when ctest runs. So a program that cannot start makes a test fail, not the build.
  gtest_discover_tests(${target}
    TEST_PREFIX "${suite}."
    ${filter}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT ${TW_TEST_TIMEOUT}
    PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${TW_TEST_TIMEOUT})
endfunction()

function(tw_add_isa_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "COMMAND;LABELS;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_COMMAND)
    message(FATAL_ERROR "[tw_add_isa_tests] ${name}: expected COMMAND, not ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  list(POP_FRONT arg_COMMAND program)
  if(TARGET ${program})
    get_target_property(is_imported ${program} IMPORTED)
    if(NOT is_imported)
      add_dependencies(${program} tw_under_isa)
    endif()
    set(program $<TARGET_FILE:${program}>)
  endif()
  set(wider)
  foreach(isa IN ITEMS avx2 sse41)
    add_test(NAME ${name}.${isa} COMMAND tw_under_isa ${isa} ${wider} -- ${program} ${arg_COMMAND})
    set_tests_properties(${name}.${isa} PROPERTIES LABELS "isa;${arg_LABELS}" TIMEOUT ${TW_TEST_TIMEOUT}
      ENVIRONMENT "${arg_ENVIRONMENT}" SKIP_RETURN_CODE 77 COST 15)
    list(APPEND wider ${isa})
  endforeach()
endfunction()
