# Finds CAF where it comes without a CMake package of its own (Debian's libcaf-dev).
# Defines CAF::core and CAF_VERSION.
find_path(CAF_INCLUDE_DIR caf/all.hpp)
find_library(CAF_CORE_LIBRARY caf_core)

if(CAF_INCLUDE_DIR)
  file(STRINGS ${CAF_INCLUDE_DIR}/caf/config.hpp _caf_version_line REGEX "#define CAF_VERSION ")
  string(REGEX MATCH "[0-9]+" _caf_number "${_caf_version_line}")
  math(EXPR _caf_major "${_caf_number} / 10000")
  math(EXPR _caf_minor "(${_caf_number} / 100) % 100")
  math(EXPR _caf_patch "${_caf_number} % 100")
  set(CAF_VERSION ${_caf_major}.${_caf_minor}.${_caf_patch})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_INCLUDE_DIR
                                  VERSION_VAR CAF_VERSION)

if(CAF_FOUND AND NOT TARGET CAF::core)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES
    IMPORTED_LOCATION ${CAF_CORE_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
