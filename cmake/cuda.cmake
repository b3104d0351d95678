# Whether CUDA's toolkit is here and works (RONDO_HAS_CUDA), and what of the library it makes. nvcc makes one
# file of kernels for all architectures, which goes into the library as it is; nothing of CUDA's is linked.
set(RONDO_HAS_CUDA OFF)
if(NOT RONDO_CUDA STREQUAL OFF)
	find_package(CUDAToolkit QUIET)
	if(NOT CUDAToolkit_FOUND)
		set(rondo_no_cuda "no CUDA toolkit was found")
	elseif(CUDAToolkit_VERSION VERSION_LESS 12.5)
		set(rondo_no_cuda "CUDA toolkit ${CUDAToolkit_VERSION} is too old (12.5 will do)")
	else()
		# A toolkit with no compiler for the host's code, or a strange one, is none.
		file(WRITE ${PROJECT_BINARY_DIR}/cuda/try.cu "__global__ void nothing() {}\n")
		execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -fatbin -std=c++17 -arch=sm_80
			-o ${PROJECT_BINARY_DIR}/cuda/try.fatbin ${PROJECT_BINARY_DIR}/cuda/try.cu
			RESULT_VARIABLE rondo_nvcc_fails OUTPUT_QUIET ERROR_QUIET)
		if(rondo_nvcc_fails)
			set(rondo_no_cuda "${CUDAToolkit_NVCC_EXECUTABLE} does not work")
		else()
			set(RONDO_HAS_CUDA ON)
		endif()
	endif()
	if(RONDO_HAS_CUDA)
		message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION}")
		enable_language(ASM)
	elseif(RONDO_CUDA STREQUAL ON)
		message(FATAL_ERROR "RONDO_CUDA=ON, but ${rondo_no_cuda}")
	else()
		message(STATUS "CUDA: ${rondo_no_cuda}; Rondo will handle host memory alone")
	endif()
endif()

set(RONDO_KERNELS_DIR "" CACHE PATH "Where compiled kernels are, for several builds to share; empty: in this one")
set(rondo_kernels_dir ${PROJECT_BINARY_DIR}/cuda)
if(RONDO_KERNELS_DIR)
	set(rondo_kernels_dir ${RONDO_KERNELS_DIR})
endif()
file(MAKE_DIRECTORY ${rondo_kernels_dir})

# sm_80 (A100), sm_90 (H100, H200), and code that the driver compiles for later ones. The sanitizers change
# nothing of a kernel: beside them there is but code that the driver compiles, for all of these, quickly made.
set(RONDO_CUDA_ARCHITECTURES 80 90 CACHE STRING
	"GPUs that kernels are compiled for, as 90 for compute capability 9.0; the last one's serve later GPUs, too")
list(SORT RONDO_CUDA_ARCHITECTURES COMPARE NATURAL)
list(GET RONDO_CUDA_ARCHITECTURES 0 rondo_first_architecture)
list(GET RONDO_CUDA_ARCHITECTURES -1 rondo_last_architecture)
set(rondo_architectures)
if(RONDO_SANITIZE AND NOT RONDO_KERNELS_DIR)
	set(rondo_last_architecture ${rondo_first_architecture})
else()
	foreach(architecture ${RONDO_CUDA_ARCHITECTURES})
		list(APPEND rondo_architectures -gencode=arch=compute_${architecture},code=sm_${architecture})
	endforeach()
endif()
list(APPEND rondo_architectures
	-gencode=arch=compute_${rondo_last_architecture},code=compute_${rondo_last_architecture})

# Compiles a file of kernels into NAME.fatbin. What follows is what it includes. A product is rounded before it is
# added to something, as the host's are: a value must be the same bits wherever it was computed.
function(rondo_add_fatbin name source)
	set(fatbin ${rondo_kernels_dir}/${name}.fatbin)
	set(script ${PROJECT_SOURCE_DIR}/cmake/fatbin.cmake)
	set(compile ${CUDAToolkit_NVCC_EXECUTABLE} -fatbin -std=c++17 -O3 -fmad=false ${rondo_architectures}
		-I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/lib -I${PROJECT_SOURCE_DIR}/lib/include ${source})
	add_custom_command(OUTPUT ${fatbin}
		COMMAND ${CMAKE_COMMAND} "-DFATBIN=${fatbin}" "-DCOMPILE=${compile}" "-DVERSION=${CUDAToolkit_VERSION}"
			"-DDEPENDS=${script};${source};${ARGN}"
			-P ${script}
		DEPENDS ${script} ${source} ${ARGN}
		COMMENT "Compiling CUDA kernels: ${name}" VERBATIM)
endfunction()

# Puts the fatbins of these names into a target, by its fatbin.S, which knows each as RONDO_NAME_FATBIN; and C sources
# that see CUDA's headers.
function(rondo_add_cuda_parts target directory)
	cmake_parse_arguments(arg "" "" "FATBINS;SOURCES" ${ARGN})
	set(fatbins)
	set(fatbin_names)
	foreach(name ${arg_FATBINS})
		list(APPEND fatbins ${rondo_kernels_dir}/${name}.fatbin)
		string(TOUPPER ${name} upper)
		list(APPEND fatbin_names "RONDO_${upper}_FATBIN=\"${rondo_kernels_dir}/${name}.fatbin\"")
	endforeach()
	list(TRANSFORM arg_SOURCES PREPEND ${directory}/)
	target_sources(${target} PRIVATE ${arg_SOURCES} ${directory}/fatbin.S)
	set_source_files_properties(${directory}/fatbin.S PROPERTIES OBJECT_DEPENDS "${fatbins}"
		COMPILE_DEFINITIONS "${fatbin_names}")
	set_source_files_properties(${arg_SOURCES} PROPERTIES
		COMPILE_OPTIONS "-isystem;${CUDAToolkit_INCLUDE_DIRS}")
endfunction()

function(rondo_add_cuda target)
	set(source ${PROJECT_SOURCE_DIR}/lib/device/cuda)
	file(GLOB headers CONFIGURE_DEPENDS ${source}/*.cuh)
	foreach(name kernels plans transfers)
		rondo_add_fatbin(${name} ${source}/${name}.cu ${headers} ${PROJECT_SOURCE_DIR}/lib/device/work.h
			${PROJECT_SOURCE_DIR}/lib/device/work_run.h ${PROJECT_SOURCE_DIR}/lib/device/flags_run.h
			${PROJECT_SOURCE_DIR}/lib/device/small_work.h ${PROJECT_SOURCE_DIR}/lib/device/small_run.h
			${PROJECT_SOURCE_DIR}/lib/device/steps.h ${PROJECT_SOURCE_DIR}/lib/device/steps_run.h
			${PROJECT_SOURCE_DIR}/lib/device/transfer_work.h ${PROJECT_SOURCE_DIR}/lib/device/transfer_run.h
			${PROJECT_SOURCE_DIR}/lib/exec/f8.h ${PROJECT_SOURCE_DIR}/lib/include/rondo.h)
	endforeach()
	rondo_add_cuda_parts(${target} ${source} FATBINS kernels plans transfers
		SOURCES cuda.c context.c driver.c memory.c stream.c)
	set_source_files_properties(${source}/driver.c PROPERTIES
		COMPILE_DEFINITIONS RONDO_FIRST_ARCHITECTURE=${rondo_first_architecture})
	target_compile_definitions(${target} PRIVATE RONDO_HAS_CUDA=1)
endfunction()
