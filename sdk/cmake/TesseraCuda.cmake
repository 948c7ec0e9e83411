# Finds nvcc, for CUDA_SOURCES of tessera_add_plugin(). Included at the top of a project, since
# CMake enables a language there only; sets TESSERA_HAVE_CUDA.
set(TESSERA_CUDA AUTO CACHE STRING "Kernels for NVIDIA GPUs: ON, OFF, or AUTO, where nvcc is found")
set_property(CACHE TESSERA_CUDA PROPERTY STRINGS AUTO ON OFF)
set(TESSERA_CUDA_ARCHITECTURES "" CACHE STRING
  "GPUs that kernels are compiled for, as CMAKE_CUDA_ARCHITECTURES names them; empty: all of ours")
set(TESSERA_HAVE_CUDA FALSE)
if(Tessera_INCLUDE_DIR)  # an installed Tessera
  set(TESSERA_CUDA_HEADERS "${Tessera_INCLUDE_DIR}/tessera_cuda")
else()
  set(TESSERA_CUDA_HEADERS "${PROJECT_SOURCE_DIR}/plugins/devices/cuda")
endif()

# What compiles: C++20 and three generations of GPUs. The last one as PTX too, for those after it.
set(TESSERA_CUDA_LEAST 12.4)

function(tessera_find_nvcc nvcc version)
  set(found "$ENV{CUDACXX}")
  if(NOT found AND EXISTS "${TESSERA_CUDA_COMPILER}")
    set(found "${TESSERA_CUDA_COMPILER}")  # of the first time, whose environment is gone
  endif()
  if(NOT found)
    find_program(TESSERA_NVCC nvcc PATHS /usr/local/cuda/bin NO_CACHE)
    set(found "${TESSERA_NVCC}")
  endif()
  set(is "")
  if(found)
    execute_process(COMMAND "${found}" --version OUTPUT_VARIABLE text ERROR_VARIABLE text
                    RESULT_VARIABLE result)
    if(result EQUAL 0 AND text MATCHES "release ([0-9]+[.][0-9]+)")
      set(is "${CMAKE_MATCH_1}")
    elseif(NOT "$ENV{CUDACXX}" STREQUAL "")
      message(FATAL_ERROR "CUDACXX = '${found}' is no nvcc: ${text}")
    endif()
  endif()
  set(${nvcc} "${found}" PARENT_SCOPE)
  set(${version} "${is}" PARENT_SCOPE)
endfunction()

# Compiles sources of a plugin for GPUs. A register that does not fit, which makes a kernel slow
# without a word, is an error.
function(tessera_add_cuda_sources target)
  target_sources(${target} PRIVATE ${ARGN})
  target_compile_definitions(${target} PRIVATE TESSERA_HAVE_CUDA)
  # FMT_USE_CONSTEXPR: nvcc does not take fmt 9's own choice.
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-DFMT_USE_CONSTEXPR=1;--expt-relaxed-constexpr>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>"
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xptxas --warn-on-spills,--warning-as-error>")
  set_target_properties(${target} PROPERTIES
    LINKER_LANGUAGE CXX
    CUDA_STANDARD 20
    CUDA_STANDARD_REQUIRED ON
    CUDA_EXTENSIONS OFF
    CUDA_RUNTIME_LIBRARY Shared
    CUDA_VISIBILITY_PRESET hidden
    CUDA_ARCHITECTURES "${TESSERA_CUDA_TARGETS}")
  # <gpu.hpp>, and what it rests on.
  target_include_directories(${target} PRIVATE "${TESSERA_CUDA_HEADERS}")
  # The C++ sources see the runtime's header, and its library is linked by its full path: a toolkit
  # of Python packages has no link of its short name.
  target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_link_libraries(${target} PRIVATE "${TESSERA_CUDA_RUNTIME}")
endfunction()

if(TESSERA_CUDA STREQUAL "OFF")
  return()
elseif(NOT TESSERA_CUDA MATCHES "^(AUTO|ON)$")
  message(FATAL_ERROR "TESSERA_CUDA = '${TESSERA_CUDA}' is none of AUTO, ON, OFF")
endif()
tessera_find_nvcc(nvcc version)
if(NOT version OR version VERSION_LESS TESSERA_CUDA_LEAST)
  if(version)
    set(why "${nvcc} is ${version}")
  else()
    set(why "there is none in CUDACXX, PATH and /usr/local/cuda/bin")
  endif()
  if(TESSERA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TESSERA_CUDA = ON wants nvcc ${TESSERA_CUDA_LEAST} or later: ${why}")
  endif()
  message(STATUS "No kernels for NVIDIA GPUs: nvcc ${TESSERA_CUDA_LEAST} is wanted, and ${why}")
  return()
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "${nvcc}")
endif()
if(NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
endif()
if(TESSERA_CUDA_ARCHITECTURES)
  set(TESSERA_CUDA_TARGETS "${TESSERA_CUDA_ARCHITECTURES}")
  list(JOIN TESSERA_CUDA_TARGETS ", " TESSERA_CUDA_CAPABILITIES)
elseif(version VERSION_GREATER_EQUAL 12.8)
  set(TESSERA_CUDA_TARGETS "80-real;90a-real;100")
  set(TESSERA_CUDA_CAPABILITIES "8.x, 9.0, 10.0 and later")
else()
  set(TESSERA_CUDA_TARGETS "80-real;90a-real;90-virtual")
  set(TESSERA_CUDA_CAPABILITIES "8.x, 9.0 and later")
endif()
set(CMAKE_CUDA_ARCHITECTURES 80)  # of CMake's own trials
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
cmake_path(GET CMAKE_CUDA_COMPILER PARENT_PATH bin)
string(REGEX REPLACE "[.].*" "" major "${version}")
find_file(TESSERA_CUDA_RUNTIME NAMES libcudart.so libcudart.so.${major}
  HINTS "${bin}/../lib64" "${bin}/../lib" "${bin}/../targets/x86_64-linux/lib"
  DOC "CUDA's runtime, as a shared library" REQUIRED)
cmake_path(GET TESSERA_CUDA_RUNTIME PARENT_PATH TESSERA_CUDA_LIBRARY_DIR)
set(TESSERA_HAVE_CUDA TRUE)
set(TESSERA_CUDA_COMPILER "${CMAKE_CUDA_COMPILER}" CACHE INTERNAL "nvcc of this build")
message(STATUS "Kernels for NVIDIA GPUs by ${CMAKE_CUDA_COMPILER} ${version}")
