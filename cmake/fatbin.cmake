# cmake -DFATBIN=... -DCOMPILE=... -DVERSION=... -DDEPENDS=... -P fatbin.cmake: makes the fatbin by the command
# COMPILE of that version, unless another build that shares it has already: by the same, begun since DEPENDS
# changed.
set(made OFF)
if(EXISTS ${FATBIN} AND EXISTS ${FATBIN}.command)
	file(READ ${FATBIN}.command command)
	if(command STREQUAL "${VERSION} ${COMPILE}")
		set(made ON)
	endif()
endif()
foreach(source ${DEPENDS})
	if(${source} IS_NEWER_THAN ${FATBIN}.command)
		set(made OFF)
	endif()
endforeach()
if(made)
	return()
endif()

# Under another name first: another build may be reading it, or making it too.
string(RANDOM name)
file(WRITE ${FATBIN}.command.${name} "${VERSION} ${COMPILE}")
execute_process(COMMAND ${COMPILE} -o ${FATBIN}.${name} RESULT_VARIABLE fails)
if(fails)
	file(REMOVE ${FATBIN}.${name} ${FATBIN}.command.${name})
	message(FATAL_ERROR "nvcc: ${fails}")
endif()
file(RENAME ${FATBIN}.${name} ${FATBIN})
file(RENAME ${FATBIN}.command.${name} ${FATBIN}.command)
