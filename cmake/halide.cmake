# SPDX-License-Identifier: Apache-2.0
#
# Finds Halide 21, the compiler library for processors: include/Halide.h and libHalide.so. Searches these
# places in this order:
#   an installation that the user names by a variable of find_package(Halide), in CMake or in the
#     environment: Halide_DIR, Halide_ROOT or CMAKE_PREFIX_PATH;
#   the package "halide" of PyPI: in -DHalideWheel_ROOT=<.../site-packages/halide>, the checkout's .venv,
#     an active virtual environment, and the folders of CMAKE_PREFIX_PATH (when a wheel is built, these are
#     the folders of its build requirements);
#   the folders of the system.
# A message says which installation is used, and why the installations before it are not used. A wheel of
# this project is used together with PyPI's package of Halide, so a wheel is built with that package only.
# Halide's own CMake package is not used, because it needs CMake 3.28.
#
# If Halide is found, sets TW_HALIDE_LIBRARY, TW_HALIDE_LIBRARY_DIR and TW_HALIDE_FROM_PYPI, and defines the
# target HalideLibrary::Halide.

set(TW_HALIDE_LIBRARY)
set(TW_HALIDE_FROM_PYPI OFF)
set(_expected 21)  # the major version
set(_refused)      # reasons why installations that were found are not used

# _tw_halide_version(<variable> <Halide.h>): sets the variable to the version that the header states.
function(_tw_halide_version variable header)
  set(version)
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${header}" line REGEX "^#define HALIDE_VERSION_${part} +[0-9]+" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+$" number "${line}")
    list(APPEND version ${number})
  endforeach()
  list(JOIN version "." version)
  set(${variable} ${version} PARENT_SCOPE)
endfunction()

# _tw_halide_in(<origin> <is_named> <folder>...): chooses the first of the folders that has Halide in the
# expected version. Does nothing if a Halide was chosen before. <origin> names the folders in messages. If
# <is_named> is ON, the user has named the folders, and a folder without Halide is mentioned in the message.
function(_tw_halide_in origin is_named)
  foreach(folder IN LISTS ARGN)
    if(TW_HALIDE_LIBRARY)
      return()
    endif()
    # find_file() and find_library() do not search if their variable has a value, perhaps from the project
    # that includes this one.
    unset(_tw_header)
    unset(_tw_library)
    find_file(_tw_header Halide.h PATHS "${folder}" PATH_SUFFIXES include NO_DEFAULT_PATH NO_CACHE)
    find_library(_tw_library NAMES libHalide.so PATHS "${folder}" NO_DEFAULT_PATH NO_CACHE
      PATH_SUFFIXES lib64 lib lib/${CMAKE_LIBRARY_ARCHITECTURE})
    set(reason)
    if(NOT _tw_header)
      if(is_named)
        set(reason "which has no include/Halide.h")
      endif()
    else()
      _tw_halide_version(version "${_tw_header}")
      if(NOT version MATCHES "^${_expected}\\.")
        set(reason "whose version is ${version}, expected ${_expected}")
      elseif(NOT _tw_library)
        set(reason "which has no lib/libHalide.so")
      else()
        cmake_path(GET _tw_header PARENT_PATH include)
        set(TW_HALIDE_LIBRARY "${_tw_library}")
        set(TW_HALIDE_LIBRARY "${_tw_library}" PARENT_SCOPE)
        set(_include "${include}" PARENT_SCOPE)
        set(_chosen "Halide ${version}: ${_tw_library} (${origin})" PARENT_SCOPE)
      endif()
    endif()
    if(reason)
      list(APPEND _refused "not ${folder} (${origin}), ${reason}")
      set(_refused "${_refused}" PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

set(_prefixes ${CMAKE_PREFIX_PATH})
if(DEFINED ENV{CMAKE_PREFIX_PATH})
  string(REPLACE ":" ";" _of_environment "$ENV{CMAKE_PREFIX_PATH}")
  list(APPEND _prefixes ${_of_environment})
endif()

foreach(_variable Halide_DIR Halide_ROOT)
  foreach(_value "${${_variable}}" "$ENV{${_variable}}")
    if(NOT _value)
      continue()
    elseif(SKBUILD)
      list(APPEND _refused "not ${_value} (${_variable}), as a wheel requires the package of PyPI")
    elseif("${_variable}" STREQUAL "Halide_DIR")
      # <prefix>/lib64/cmake/Halide, or <prefix>/lib/<architecture>/cmake/Halide
      cmake_path(SET _prefix NORMALIZE "${_value}/../../..")
      if(NOT EXISTS "${_prefix}/include/Halide.h" AND EXISTS "${_prefix}/../include/Halide.h")
        cmake_path(SET _prefix NORMALIZE "${_prefix}/..")
      endif()
      _tw_halide_in("Halide_DIR" ON "${_prefix}")
    else()
      _tw_halide_in("Halide_ROOT" ON "${_value}")
    endif()
  endforeach()
endforeach()
if(NOT SKBUILD)
  _tw_halide_in("CMAKE_PREFIX_PATH" OFF ${_prefixes})
endif()

if(NOT TW_HALIDE_LIBRARY)
  set(_venvs ${PROJECT_SOURCE_DIR}/.venv $ENV{VIRTUAL_ENV})
  set(_candidates)
  foreach(_venv IN LISTS _venvs)
    file(GLOB _found LIST_DIRECTORIES true "${_venv}/lib*/python3*/site-packages/halide")
    list(APPEND _candidates ${_found})
  endforeach()
  list(TRANSFORM _prefixes APPEND /halide)
  _tw_halide_in("HalideWheel_ROOT" ON ${HalideWheel_ROOT})
  _tw_halide_in("the package of PyPI" OFF ${_candidates} ${_prefixes})
  if(TW_HALIDE_LIBRARY)
    set(TW_HALIDE_FROM_PYPI ON)
  endif()
endif()
if(NOT SKBUILD)
  _tw_halide_in("the system's" OFF ${CMAKE_SYSTEM_PREFIX_PATH})
endif()

if(NOT TW_HALIDE_LIBRARY)
  set(_chosen "No Halide ${_expected}, so the compiler for processors is not built")
else()
  cmake_path(GET TW_HALIDE_LIBRARY PARENT_PATH TW_HALIDE_LIBRARY_DIR)
  if(NOT TARGET HalideLibrary::Halide)
    add_library(HalideLibrary::Halide SHARED IMPORTED)
    set_target_properties(HalideLibrary::Halide PROPERTIES
      IMPORTED_LOCATION "${TW_HALIDE_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${_include}")
  endif()
endif()
list(PREPEND _refused "${_chosen}")
list(JOIN _refused "; " _message)
message(STATUS "${_message}")
