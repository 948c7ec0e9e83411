# tessera_add_abi_stamp(<sdk target> <include dir>): generates tessera/abi_stamp.hpp over the
# headers below <include dir>, again whenever one of them changes, and puts it on the include path
# of everything that links <sdk target>.
set(TESSERA_ABI_SCRIPT "${CMAKE_CURRENT_LIST_DIR}/AbiStamp.cmake")

function(tessera_add_abi_stamp sdk include_dir)
  if(NOT TARGET tessera_abi_stamp)
    tessera_make_abi_stamp("${include_dir}")
  endif()
  get_property(generated GLOBAL PROPERTY TESSERA_ABI_INCLUDE)
  add_dependencies(${sdk} tessera_abi_stamp)
  target_include_directories(${sdk} INTERFACE "$<BUILD_INTERFACE:${generated}>")
endfunction()

# Once a build: find_package(Tessera) makes targets anew in each folder that calls it.
function(tessera_make_abi_stamp include_dir)
  set(generated "${PROJECT_BINARY_DIR}/generated")
  set(stamp "${generated}/tessera/abi_stamp.hpp")
  file(MAKE_DIRECTORY "${generated}")  # an include path of imported targets has to exist
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${include_dir}/tessera/*.hpp")
  add_custom_command(
    OUTPUT "${stamp}"
    COMMAND "${CMAKE_COMMAND}" "-DINCLUDE_DIR=${include_dir}" "-DOUTPUT=${stamp}"
            -P "${TESSERA_ABI_SCRIPT}"
    DEPENDS ${headers} "${TESSERA_ABI_SCRIPT}"
    COMMENT "ABI stamp"
    VERBATIM)
  add_custom_target(tessera_abi_stamp DEPENDS "${stamp}")
  set_property(GLOBAL PROPERTY TESSERA_ABI_INCLUDE "${generated}")
endfunction()
