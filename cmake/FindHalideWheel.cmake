# SPDX-License-Identifier: Apache-2.0
#
# Finds the compiler library inside the PyPI package "halide": include/Halide.h and libHalide.so.
#
# Looked for in, first to last: -DHalideWheel_ROOT=<.../site-packages/halide>, the checkout's .venv,
# an active virtual environment, the folders of CMAKE_PREFIX_PATH (where a wheel is built, those of its
# build requirements). Defines HalideWheel_FOUND, HalideWheel_VERSION,
# HalideWheel_LIBRARY_DIR and the target HalideWheel::Halide.

set(_venvs ${PROJECT_SOURCE_DIR}/.venv)
if(DEFINED ENV{VIRTUAL_ENV})
  list(APPEND _venvs $ENV{VIRTUAL_ENV})
endif()
set(_candidates ${HalideWheel_ROOT})
foreach(_venv IN LISTS _venvs)
  file(GLOB _found LIST_DIRECTORIES true "${_venv}/lib*/python3*/site-packages/halide")
  list(APPEND _candidates ${_found})
endforeach()

list(TRANSFORM CMAKE_PREFIX_PATH APPEND /halide OUTPUT_VARIABLE _prefixes)
list(APPEND _candidates ${_prefixes})

find_path(HalideWheel_INCLUDE_DIR Halide.h
  PATHS ${_candidates} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_library(HalideWheel_LIBRARY Halide
  PATHS ${_candidates} PATH_SUFFIXES lib64 lib NO_DEFAULT_PATH)

unset(HalideWheel_VERSION)
if(HalideWheel_INCLUDE_DIR)
  foreach(_part MAJOR MINOR PATCH)
    file(STRINGS "${HalideWheel_INCLUDE_DIR}/Halide.h" _line
      REGEX "^#define HALIDE_VERSION_${_part} +[0-9]+" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+$" _number "${_line}")
    list(APPEND HalideWheel_VERSION ${_number})
  endforeach()
  list(JOIN HalideWheel_VERSION "." HalideWheel_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HalideWheel
  REQUIRED_VARS HalideWheel_LIBRARY HalideWheel_INCLUDE_DIR
  VERSION_VAR HalideWheel_VERSION)

if(HalideWheel_FOUND)
  get_filename_component(HalideWheel_LIBRARY_DIR "${HalideWheel_LIBRARY}" DIRECTORY)
  if(NOT TARGET HalideWheel::Halide)
    add_library(HalideWheel::Halide SHARED IMPORTED)
    set_target_properties(HalideWheel::Halide PROPERTIES
      IMPORTED_LOCATION "${HalideWheel_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${HalideWheel_INCLUDE_DIR}")
  endif()
endif()
mark_as_advanced(HalideWheel_INCLUDE_DIR HalideWheel_LIBRARY)
