# SPDX-License-Identifier: Apache-2.0
#
# Lists the public C++ headers, which other programs may include. docs/api.md describes each of them. Headers
# that a public header includes are installed too, but programs should not include them directly. Sets
#   tw_public_headers     the public headers, as paths from the root
#   tw_installed_headers  the public headers and all headers that they include
# Writes include/tilewright/ of the build tree: tilewright.h, the C interface, and tilewright.hpp, which
# includes all public headers.

set(tw_public_headers
  base/result.h base/target.h base/random.h
  dsl/expr.h dsl/compute.h dsl/parse.h dsl/operators.h dsl/workload.h dsl/interpret.h dsl/array.h
  schedules/schedule.h schedules/step.h schedules/space/space.h schedules/space/find_point.h
  codegen/compile.h codegen/c_emitter.h codegen/cpu_codegen.h codegen/export.h
  cost_model/cost_model.h cost_model/facts/facts.h
  db/store.h db/record.h db/answers.h db/calibration.h db/claims.h db/demand.h db/maintenance.h
  db/overview.h db/recall.h db/transfer.h
  runtime/kernel.h runtime/devices/device_kernel.h runtime/device.h runtime/session.h runtime/model.h runtime/model_file.h
  graph/graph.h graph/passes.h graph/onnx/import.h
  tuner/tune.h tuner/targets.h tuner/workers/environment.h tuner/workers/workers.h tuner/workers/device.h
  tuner/network/network.h tuner/network/tune_model.h)

set(tw_installed_headers ${tw_public_headers})
set(unread ${tw_public_headers})
while(unread)
  list(POP_FRONT unread header)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} lines REGEX "^#include \"")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include \"(.*)\".*" "\\1" included "${line}")
    if(NOT included IN_LIST tw_installed_headers)
      list(APPEND tw_installed_headers ${included})
      list(APPEND unread ${included})
    endif()
  endforeach()
endwhile()

list(TRANSFORM tw_public_headers REPLACE "(.+)" "#include \"\\1\"" OUTPUT_VARIABLE lines)
list(JOIN lines "\n" lines)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/include/tilewright/tilewright.hpp @ONLY CONTENT
"// SPDX-License-Identifier: Apache-2.0
#pragma once
// All public headers of Tilewright (docs/api.md).

${lines}
")
configure_file(${PROJECT_SOURCE_DIR}/runtime/tilewright.h
               ${PROJECT_BINARY_DIR}/include/tilewright/tilewright.h COPYONLY)
