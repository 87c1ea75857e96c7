# SPDX-License-Identifier: Apache-2.0
#
# Finds the schema of ONNX models, onnx-ml.proto, in the PyPI package "onnx". Searches these places in this
# order:
#   -DOnnxSchema_ROOT=<.../site-packages/onnx>;
#   the checkout's .venv;
#   an active virtual environment;
#   the folder onnx in the folders of CMAKE_PREFIX_PATH. When a wheel is built, these are the folders of its
#     build requirements.
# Defines OnnxSchema_FOUND, OnnxSchema_VERSION and OnnxSchema_FILE.

set(_venvs ${PROJECT_SOURCE_DIR}/.venv)
if(DEFINED ENV{VIRTUAL_ENV})
  list(APPEND _venvs $ENV{VIRTUAL_ENV})
endif()
set(_candidates ${OnnxSchema_ROOT})
foreach(_venv IN LISTS _venvs)
  file(GLOB _found LIST_DIRECTORIES true "${_venv}/lib*/python3*/site-packages/onnx")
  list(APPEND _candidates ${_found})
endforeach()

list(TRANSFORM CMAKE_PREFIX_PATH APPEND /onnx OUTPUT_VARIABLE _prefixes)
list(APPEND _candidates ${_prefixes})

find_file(OnnxSchema_FILE onnx-ml.proto PATHS ${_candidates} NO_DEFAULT_PATH)

unset(OnnxSchema_VERSION)
if(OnnxSchema_FILE)
  get_filename_component(_folder "${OnnxSchema_FILE}" DIRECTORY)
  file(GLOB _metadata LIST_DIRECTORIES true "${_folder}-*.dist-info")
  string(REGEX MATCH "onnx-([0-9.]+)\\.dist-info" _match "${_metadata}")
  set(OnnxSchema_VERSION ${CMAKE_MATCH_1})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OnnxSchema
  REQUIRED_VARS OnnxSchema_FILE
  VERSION_VAR OnnxSchema_VERSION)
mark_as_advanced(OnnxSchema_FILE)
