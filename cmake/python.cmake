# The Python package as a wheel, with the library and rondo-run in it: one file for all Pythons, as it uses ctypes alone.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(NOT Python3_Interpreter_FOUND)
	message(STATUS "Python package: left out, needs python3 to write the wheel")
	return()
endif()
# docs/installing.md names the least C libraries. pip compares this with the user's.
check_c_source_compiles("#include <features.h>\n#ifndef __GLIBC__\n#error musl\n#endif\nint main(void) { return 0; }"
	rondo_has_glibc)
set(rondo_libc musllinux_1_2)
if(rondo_has_glibc)
	set(rondo_libc manylinux_2_28)
endif()
set(rondo_wheel
	${PROJECT_BINARY_DIR}/python/rondo-${PROJECT_VERSION}-py3-none-${rondo_libc}_${CMAKE_SYSTEM_PROCESSOR}.whl)
file(GLOB rondo_package CONFIGURE_DEPENDS adapters/python/rondo/*.py)
# Symbols for debuggers would make it three times as large.
set(rondo_stripped)
foreach(file librondo.so rondo-run)
	list(APPEND rondo_stripped ${PROJECT_BINARY_DIR}/python/${file})
endforeach()
add_custom_command(OUTPUT ${rondo_wheel}
	COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/python
	COMMAND ${CMAKE_STRIP} -o ${PROJECT_BINARY_DIR}/python/librondo.so $<TARGET_FILE:rondo_shared>
	COMMAND ${CMAKE_STRIP} -o ${PROJECT_BINARY_DIR}/python/rondo-run $<TARGET_FILE:rondo-run>
	COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/adapters/python/make_wheel.py ${rondo_stripped} ${rondo_wheel}
	DEPENDS rondo_shared rondo-run ${rondo_package} adapters/python/make_wheel.py LICENSE
	VERBATIM)
add_custom_target(rondo_wheel ALL DEPENDS ${rondo_wheel})
if(RONDO_INSTALL)
	install(FILES ${rondo_wheel} DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/rondo)
	add_dependencies(rondo_installed rondo_wheel)
endif()
