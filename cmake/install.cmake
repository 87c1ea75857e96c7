# SPDX-License-Identifier: Apache-2.0
#
# Installs everything except the program itself: libraries (library.cmake), headers, a CMake package, a
# pkg-config file, the manual page and completions. Included last, because all targets must be defined.
#
# An installation has these files; tools/CMakeLists.txt installs bin/ and shipped.db:
#
#   bin/tilewright, bin/tune
#   lib/libtilewright_runtime.so        loads and runs kernels: the C interface
#   lib/libtilewright.so                the C++ interface: declare, schedule, store, tune, run
#   lib/tilewright/                     the compiler for processors, opened when code is generated
#   lib/cmake/Tilewright/               find_package(Tilewright): tilewright::tilewright, ::runtime
#   lib/pkgconfig/tilewright.pc         for C programs that use the runtime
#   include/tilewright/tilewright.h     the C interface
#   include/tilewright/tilewright.hpp   all of the C++ interface
#   include/tilewright/<module>/        headers of tilewright.hpp. They include each other as "dsl/expr.h", so
#                                       programs need -I include -I include/tilewright, which the CMake
#                                       package adds
#   share/tilewright/shipped.db         records that are shipped with the program: the layer below all databases
#   share/tilewright/postgres_roles.sql roles of a tuning database on a server
#   share/man/man1, share/bash-completion, share/zsh, share/fish

add_dependencies(tilewright tilewright_library)  # installed with it

if(SKBUILD)
  # A wheel has no symbolic links: a library with several names would be copied once for each name.
  foreach(library tilewright_library tilewright_runtime)
    set_property(TARGET ${library} PROPERTY VERSION)
    set_property(TARGET ${library} PROPERTY SOVERSION)
  endforeach()
  # XGBoost is opened by its file name. It is installed where the libraries and the program search first.
  find_library(XGBOOST_LIBRARY xgboost REQUIRED)
  file(REAL_PATH ${XGBOOST_LIBRARY} xgboost)
  install(FILES ${xgboost} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME libxgboost.so.0)
  set_target_properties(tilewright_library PROPERTIES INSTALL_RPATH "$ORIGIN")
  set_target_properties(tilewright PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()

# Each library has an export of its own, so that a program that only runs kernels needs only the runtime.
install(TARGETS tilewright_library EXPORT TilewrightTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS tilewright_runtime EXPORT TilewrightRuntimeTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/tilewright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/db/postgres_roles.sql
  DESTINATION ${CMAKE_INSTALL_DATADIR}/tilewright)
foreach(header IN LISTS tw_installed_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tilewright/${folder})
endforeach()

if(TARGET tw_halide)
  install(TARGETS tw_halide LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tilewright)
  if(SKBUILD)
    # A wheel requires PyPI's package halide, which lies beside the package that has lib/tilewright.
    set_target_properties(tw_halide PROPERTIES INSTALL_RPATH "$ORIGIN/../../../halide/lib64")
  elseif(TW_HALIDE_FROM_PYPI)
    # PyPI's library of Halide is installed beside the plugin, so that the installation does not need .venv.
    set_target_properties(tw_halide PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(FILES ${TW_HALIDE_LIBRARY} DESTINATION ${CMAKE_INSTALL_LIBDIR}/tilewright)
  else()
    set_target_properties(tw_halide PROPERTIES INSTALL_RPATH "$ORIGIN;${TW_HALIDE_LIBRARY_DIR}")
  endif()
endif()

# The CMake package.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Tilewright)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/TilewrightConfig.cmake.in
  ${PROJECT_BINARY_DIR}/TilewrightConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TilewrightConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TilewrightConfig.cmake
  ${PROJECT_BINARY_DIR}/TilewrightConfigVersion.cmake DESTINATION ${package})
foreach(targets TilewrightTargets TilewrightRuntimeTargets)
  install(EXPORT ${targets} NAMESPACE tilewright:: DESTINATION ${package})
endforeach()

# The pkg-config file gives the prefix relative to its own folder, so that `cmake --install --prefix` may name
# another prefix than the configured one. If CMAKE_INSTALL_LIBDIR is absolute, the file does not lie below the
# prefix, and gives the configured prefix. Absolute folders are written as they are.
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

# The program itself prints its manual page and completions, so that they have all verbs and flags.
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
# bash and man look for a file with the name of the typed command, so the files get the name `tune` too.
set(links ${PROJECT_BINARY_DIR}/written/links)
file(MAKE_DIRECTORY ${links})
file(CREATE_LINK tilewright ${links}/tune SYMBOLIC)
file(CREATE_LINK tilewright.1 ${links}/tune.1 SYMBOLIC)
install(FILES ${links}/tune DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${links}/tune.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
