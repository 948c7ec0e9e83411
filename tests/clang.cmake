# Where clang++ 16 is installed, as by tests/setup.sh, it compiles the tests of a Release build: at
# -O0 it takes half of g++'s time, and a second compiler reads the SDK's headers. g++ compiles what
# ships and the plugins that tests load. CMake has one compiler for a project. This file names
# another for the targets of the folder that includes it: what CMake knows of g++ holds for clang++
# too, except for precompiled headers (Compiler/Clang.cmake of CMake).
find_program(TESSERA_TEST_COMPILER clang++-16 DOC "Compiles the tests, if not empty")
if(NOT TESSERA_TEST_COMPILER OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  return()
endif()
if(NOT clang_in_all_builds AND (TESSERA_SANITIZE OR NOT CMAKE_BUILD_TYPE STREQUAL "Release"))
  return()
endif()
if(NOT TESSERA_TEST_COMPILER MATCHES "clang[+][+]")
  message(FATAL_ERROR "TESSERA_TEST_COMPILER = '${TESSERA_TEST_COMPILER}' is no clang++; with "
                      "nothing after = tests are compiled by ${CMAKE_CXX_COMPILER}")
endif()
set(CMAKE_CXX_COMPILER "${TESSERA_TEST_COMPILER}")
set(CMAKE_PCH_EXTENSION .pch)
set(CMAKE_PCH_PROLOGUE "#pragma clang system_header")
set(CMAKE_CXX_COMPILE_OPTIONS_INSTANTIATE_TEMPLATES_PCH -fpch-instantiate-templates)
set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH
  -Xclang -include-pch -Xclang <PCH_FILE> -Xclang -include -Xclang <PCH_HEADER>)
set(CMAKE_CXX_COMPILE_OPTIONS_CREATE_PCH
  -Xclang -emit-pch -Xclang -include -Xclang <PCH_HEADER> -x c++-header)
# What is told to g++ alone does not hurt; ccache keeps a header that has no times in it.
add_compile_options(-Wno-unknown-warning-option -Wno-unused-command-line-argument
  "SHELL:-Xclang -fno-pch-timestamp")
