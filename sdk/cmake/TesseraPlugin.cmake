# tessera_add_plugin(): one function for plugins of this tree and for plugins of other projects,
# which get it with find_package(Tessera). Other projects also get tessera_add_plugin_test().

# What a plugin exports. Hidden visibility alone would still export weak templates of std::.
set(TESSERA_PLUGIN_EXPORTS "${CMAKE_CURRENT_LIST_DIR}/plugin_exports.map")

# tessera_add_plugin(<name> SOURCES <file>… [CUDA_SOURCES <file>…] [LIBRARIES <lib>…]
#                    [OUTPUT_DIRECTORY <dir>] [NO_INSTALL])
#
# Builds libtessera_<name>.so into <build>/plugins and installs it to lib/tessera/plugins. The
# target is called tessera_<name>. LIBRARIES are linked privately (vendors' libraries, OpenMP);
# libtessera.so is linked already. CUDA_SOURCES are compiled by nvcc where there is one
# (TESSERA_HAVE_CUDA, which the C++ sources of the target see as a definition too), and left out
# elsewhere. OUTPUT_DIRECTORY and NO_INSTALL keep a test's plugins from those that ship.
function(tessera_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg
    "NO_INSTALL" "OUTPUT_DIRECTORY" "SOURCES;CUDA_SOURCES;LIBRARIES")
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "tessera_add_plugin: '${name}' is no plugin name ([a-z][a-z0-9_]*)")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tessera_add_plugin(${name}): unknown '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "tessera_add_plugin(${name}): SOURCES is empty")
  endif()
  if(NOT arg_OUTPUT_DIRECTORY)
    set(arg_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/plugins")
  endif()

  set(target tessera_${name})
  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE Tessera::tessera ${arg_LIBRARIES})
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>")
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    target_compile_options(${target} PRIVATE -O2)  # CMake would not optimize at all
  endif()
  set(cuda_libraries "")
  if(arg_CUDA_SOURCES AND TESSERA_HAVE_CUDA)
    tessera_add_cuda_sources(${target} ${arg_CUDA_SOURCES})
    set(cuda_libraries ";${TESSERA_CUDA_LIBRARY_DIR}")
  endif()
  target_link_options(${target} PRIVATE
    "LINKER:-z,defs" "LINKER:--version-script=${TESSERA_PLUGIN_EXPORTS}")
  set_target_properties(${target} PROPERTIES
    PREFIX lib
    SUFFIX .so
    CXX_STANDARD 20
    CXX_STANDARD_REQUIRED ON
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS "${TESSERA_PLUGIN_EXPORTS}"
    LIBRARY_OUTPUT_DIRECTORY "${arg_OUTPUT_DIRECTORY}")
  set_property(GLOBAL APPEND PROPERTY TESSERA_PLUGIN_TARGETS ${target})
  if(arg_NO_INSTALL)
    return()
  endif()

  # One RPATH for both trees: CMake would pad the build tree's with ':' to replace it when
  # installing, and the loader reads an empty entry as the current directory.
  get_target_property(outside Tessera::tessera IMPORTED)
  if(outside)
    set(library "$<TARGET_FILE_DIR:Tessera::tessera>")
  else()
    set(library "$ORIGIN/../lib")
  endif()
  set_target_properties(${target} PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "${library};$ORIGIN/../..${cuda_libraries}")
  install(TARGETS ${target} LIBRARY DESTINATION lib/tessera/plugins)
endfunction()

# tessera_add_plugin_test(<plugin> SOURCES <file>…)
#
# For plugins of other projects: builds test_<plugin>, and adds it to ctest. The program may use the
# conformance kit (<tessera/testing/…>). Its arguments are two folders of plugins: those that ship
# with Tessera, and that of <plugin>, which tessera_add_plugin() has built before.
function(tessera_add_plugin_test plugin)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  if(NOT TARGET tessera_${plugin} OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tessera_add_plugin_test(<plugin> SOURCES <file>…), after "
                        "tessera_add_plugin(<plugin> …)")
  endif()
  add_executable(test_${plugin} ${arg_SOURCES})
  target_link_libraries(test_${plugin} PRIVATE Tessera::testing)
  target_compile_options(test_${plugin} PRIVATE -Wall -Wextra)
  set_target_properties(test_${plugin} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  add_dependencies(test_${plugin} tessera_${plugin})
  add_test(NAME ${plugin}
    COMMAND test_${plugin} "${Tessera_PLUGIN_DIR}" "$<TARGET_FILE_DIR:tessera_${plugin}>")
  set_tests_properties(${plugin} PROPERTIES TIMEOUT 600)  # it may run several ranks
endfunction()
