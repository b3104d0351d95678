# What is installed, but for the tools. All paths within are relative, so that the installed tree can be moved.
include(CMakePackageConfigHelpers)
# But for install folders that are given as absolute ones: those stay.
file(RELATIVE_PATH rondo_pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(rondo_pc_prefix \${pcfiledir}/${rondo_pc_to_prefix})
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
	set(rondo_pc_prefix ${CMAKE_INSTALL_PREFIX})
endif()
foreach(folder LIBDIR INCLUDEDIR)
	set(rondo_pc_${folder} \${prefix}/${CMAKE_INSTALL_${folder}})
	if(IS_ABSOLUTE ${CMAKE_INSTALL_${folder}})
		set(rondo_pc_${folder} ${CMAKE_INSTALL_${folder}})
	endif()
endforeach()
configure_file(cmake/rondo.pc.in rondo.pc @ONLY)
configure_package_config_file(cmake/RondoConfig.cmake.in RondoConfig.cmake
	INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Rondo)
write_basic_package_version_file(RondoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS rondo rondo_shared EXPORT RondoTargets
	ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES lib/include/rondo.h TYPE INCLUDE)
install(DIRECTORY lib/include/rondo TYPE INCLUDE)
install(EXPORT RondoTargets NAMESPACE rondo:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Rondo)
install(FILES ${PROJECT_BINARY_DIR}/RondoConfig.cmake ${PROJECT_BINARY_DIR}/RondoConfigVersion.cmake
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Rondo)
install(FILES ${PROJECT_BINARY_DIR}/rondo.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# Within another project CMAKE_INSTALL_DOCDIR is that one's.
set(rondo_docdir ${CMAKE_INSTALL_DATAROOTDIR}/doc/rondo)
if(PROJECT_IS_TOP_LEVEL)
	set(rondo_docdir ${CMAKE_INSTALL_DOCDIR})
endif()
install(DIRECTORY docs/ DESTINATION ${rondo_docdir})
install(FILES LICENSE CHANGES.md DESTINATION ${rondo_docdir})
# Builds what is installed, and no more: the tools, where they are built, are added to it.
add_custom_target(rondo_installed DEPENDS rondo rondo_shared)
