# SPDX-License-Identifier: Apache-2.0
#
# Defines the libraries for other programs. Included after all modules are defined.
#   tilewright::tilewright   libtilewright.so, the C++ interface: declare, schedule, store, tune, run
#   tilewright::runtime      libtilewright_runtime.so, the C interface, which loads and runs kernels
# A project that adds this one with add_subdirectory() links the libraries by these names, which are also the
# names that find_package() defines.

# One library has all modules, so that a program has to list neither the modules nor their dependencies.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/libtilewright.cpp CONTENT "" @ONLY)
add_library(tilewright_library SHARED ${PROJECT_BINARY_DIR}/libtilewright.cpp)
set(modules base dsl schedules graph db runtime codegen cost_model tuner)
list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_FILE:tw_\\1>" OUTPUT_VARIABLE archives)
target_link_libraries(tilewright_library PRIVATE
  -Wl,--whole-archive ${archives} -Wl,--no-whole-archive tw_tuner)
# Before 1.0 a minor version may change the interface.
set_target_properties(tilewright_library PROPERTIES
  OUTPUT_NAME tilewright EXPORT_NAME tilewright
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_include_directories(tilewright_library INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR};${PROJECT_BINARY_DIR}/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tilewright;${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(tilewright_library INTERFACE cxx_std_20)
target_link_libraries(tilewright_library INTERFACE tl::expected)
if(TARGET tw_halide)
  add_dependencies(tilewright_library tw_halide)  # opened at run time
endif()

set_target_properties(tilewright_runtime PROPERTIES EXPORT_NAME runtime)
target_include_directories(tilewright_runtime INTERFACE
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

add_library(tilewright::tilewright ALIAS tilewright_library)
add_library(tilewright::runtime ALIAS tilewright_runtime)

include(public_headers)
