# SPDX-License-Identifier: Apache-2.0
#
# Installs everything but the program itself: libraries, headers, a CMake package, a pkg-config
# file, the manual page and completions. Included last, when all targets are known.
#
#   bin/tilewright, bin/tune
#   lib/libtilewright_runtime.so        loads and runs kernels: the C interface
#   lib/libtilewright.so                all of C++: declare, schedule, store, tune, run
#   lib/tilewright/                     the compiler for processors, opened when code is generated
#   lib/cmake/Tilewright/               find_package(Tilewright): Tilewright::tilewright, ::runtime
#   lib/pkgconfig/tilewright.pc         for C: the runtime
#   include/tilewright/tilewright.h     the C interface
#   include/tilewright/<module>/        the C++ headers, which include each other as "dsl/expr.h":
#                                       -I include/tilewright, which the CMake package adds
#   share/tilewright/shipped.db         records of machines that were measured: the layer below all databases
#   share/tilewright/postgres_roles.sql roles of a tuning database on a server
#   share/man/man1, share/bash-completion, share/zsh, share/fish

set(modules base dsl schedules graph db runtime codegen cost_model tuner)

# One library with all modules, so that a program needs to list neither them nor their dependencies.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/libtilewright.cpp CONTENT "" @ONLY)
add_library(tilewright_library SHARED ${PROJECT_BINARY_DIR}/libtilewright.cpp)
list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_FILE:tw_\\1>" OUTPUT_VARIABLE archives)
target_link_libraries(tilewright_library PRIVATE
  -Wl,--whole-archive ${archives} -Wl,--no-whole-archive tw_tuner)
set_target_properties(tilewright_library PROPERTIES
  OUTPUT_NAME tilewright EXPORT_NAME tilewright
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(tilewright_library INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tilewright>)
target_compile_features(tilewright_library INTERFACE cxx_std_20)
target_link_libraries(tilewright_library INTERFACE tl::expected)
add_dependencies(tilewright tilewright_library)  # installed with it

set_target_properties(tilewright_runtime PROPERTIES EXPORT_NAME runtime)
if(SKBUILD)
  # A wheel has no symbolic links: libraries of several names would be copied for each of them.
  foreach(library tilewright_library tilewright_runtime)
    set_property(TARGET ${library} PROPERTY VERSION)
    set_property(TARGET ${library} PROPERTY SOVERSION)
  endforeach()
  # XGBoost is opened by its name, so it lies where the libraries and the program look first.
  find_library(XGBOOST_LIBRARY xgboost REQUIRED)
  file(REAL_PATH ${XGBOOST_LIBRARY} xgboost)
  install(FILES ${xgboost} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME libxgboost.so.0)
  set_target_properties(tilewright_library PROPERTIES INSTALL_RPATH "$ORIGIN")
  set_target_properties(tilewright PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()
target_include_directories(tilewright_runtime INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(TARGETS tilewright_library tilewright_runtime EXPORT TilewrightTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_SOURCE_DIR}/runtime/tilewright.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tilewright)
install(FILES ${PROJECT_SOURCE_DIR}/db/postgres_roles.sql
  DESTINATION ${CMAKE_INSTALL_DATADIR}/tilewright)
foreach(module IN LISTS modules)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${module}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tilewright
    # Not what only our sources include, which needs a JSON library, protobuf or libpq.
    FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "sealed_header.h" EXCLUDE
                   PATTERN "model_checks.h" EXCLUDE PATTERN "libpq.h" EXCLUDE)
endforeach()

# The CMake package.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Tilewright)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/TilewrightConfig.cmake.in
  ${PROJECT_BINARY_DIR}/TilewrightConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TilewrightConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TilewrightConfig.cmake
  ${PROJECT_BINARY_DIR}/TilewrightConfigVersion.cmake DESTINATION ${package})
install(EXPORT TilewrightTargets NAMESPACE Tilewright:: DESTINATION ${package})

# The pkg-config file finds the prefix from where it lies, so that --prefix may differ from the
# configured one. Below an absolute CMAKE_INSTALL_LIBDIR it lies apart from the prefix, and names the
# configured one. Absolute folders stand as they are.
set(pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(TW_PKGCONFIG_PREFIX ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE ${pkgconfig})
  file(RELATIVE_PATH up /prefix/${pkgconfig} /prefix)
  string(REGEX REPLACE "/$" "" up ${up})
  set(TW_PKGCONFIG_PREFIX "\${pcfiledir}/${up}")
endif()
foreach(folder LIBDIR INCLUDEDIR)
  set(TW_PKGCONFIG_${folder} ${CMAKE_INSTALL_${folder}})
  if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_${folder}})
    set(TW_PKGCONFIG_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
  endif()
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/tilewright.pc.in ${PROJECT_BINARY_DIR}/tilewright.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tilewright.pc DESTINATION ${pkgconfig})

# The program writes its own manual and completions, so that they know every verb and flag.
foreach(page
    "manual;${CMAKE_INSTALL_MANDIR}/man1/tilewright.1"
    "completion bash;${CMAKE_INSTALL_DATADIR}/bash-completion/completions/tilewright"
    "completion zsh;${CMAKE_INSTALL_DATADIR}/zsh/site-functions/_tilewright"
    "completion fish;${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d/tilewright.fish")
  list(GET page 0 command)
  list(GET page 1 path)
  cmake_path(GET path PARENT_PATH folder)
  set(written ${PROJECT_BINARY_DIR}/written/${path})
  separate_arguments(command UNIX_COMMAND "${command}")
  install(CODE "
    file(MAKE_DIRECTORY \"${PROJECT_BINARY_DIR}/written/${folder}\")
    execute_process(COMMAND env -i \"$<TARGET_FILE:tilewright>\" ${command}
      OUTPUT_FILE \"${written}\" COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${written} DESTINATION ${folder})
endforeach()
# bash and man look a command up by the name that is typed.
install(CODE "
  set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  file(CREATE_LINK tilewright
    \"\${share}/${CMAKE_INSTALL_DATADIR}/bash-completion/completions/tune\" SYMBOLIC)
  file(CREATE_LINK tilewright.1 \"\${share}/${CMAKE_INSTALL_MANDIR}/man1/tune.1\" SYMBOLIC)")
