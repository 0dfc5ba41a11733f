# cmake -D BUILD=build-tree -D CXX=compiler -P check.cmake
# Installs into a prefix inside the build tree, then configures, builds and runs
# the project beside this file against it.
set(work ${BUILD}/outside_project)
file(REMOVE_RECURSE ${work})

function(step name)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${name} failed (${result}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

step(install ${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/prefix)
step(configure ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${work}/build -G Ninja
     -D CMAKE_PREFIX_PATH=${work}/prefix -D CMAKE_CXX_COMPILER=${CXX})
step(build ${CMAKE_COMMAND} --build ${work}/build)
step(run ${work}/build/outside)
if(NOT output MATCHES "lockstep [0-9]+\\.[0-9]+" OR NOT output MATCHES "the sum is 1\n" OR NOT output MATCHES "usage: .*as it should be")
  message(FATAL_ERROR "unexpected output:\n${output}")
endif()
step(program ${work}/prefix/bin/lockstep launch -n 2 -- ${work}/build/outside)
if(NOT output MATCHES "the sum is 3\n")
  message(FATAL_ERROR "unexpected output of two ranks:\n${output}")
endif()
foreach(helper on_ranks memory_wire)
  if(EXISTS ${work}/prefix/include/lockstep/comm/${helper}.h)
    message(FATAL_ERROR "the tests' helper ${helper}.h was installed")
  endif()
endforeach()
# A torch of another version must be refused with the reason, not linked.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${work}/refused -G Ninja
                -D CMAKE_PREFIX_PATH=${work}/prefix -D CMAKE_CXX_COMPILER=${CXX} -D LOCKSTEP_TORCH=${work}
                RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE output)
if(result EQUAL 0 OR NOT output MATCHES "Lockstep was built with torch")
  message(FATAL_ERROR "a folder without torch was accepted or refused without the reason:\n${output}")
endif()
