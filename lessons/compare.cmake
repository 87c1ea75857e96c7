# SPDX-License-Identifier: Apache-2.0
#
# Runs PROGRAM, with the argument SCRIPT where one is given, twice in a directory WORK, which is empty
# at first, and compares what it prints with the file EXPECTED.
# To take over new output after reading it: build/release/lessons/NAME > lessons/lesson_N.expected
string(APPEND WORK "$ENV{TILEWRIGHT_MAX_ISA}")  # runs under other instruction sets may be under way
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
foreach(run first second)
  execute_process(COMMAND ${PROGRAM} ${SCRIPT} WORKING_DIRECTORY ${WORK}
    OUTPUT_FILE ${WORK}/printed.txt RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "[lesson] ${PROGRAM} ${SCRIPT} ended with ${status} when run the ${run} time")
  endif()
  execute_process(COMMAND diff -u ${EXPECTED} ${WORK}/printed.txt RESULT_VARIABLE differs)
  if(differs)
    message(FATAL_ERROR "[lesson] the output of the ${run} run is not ${EXPECTED}")
  endif()
endforeach()
