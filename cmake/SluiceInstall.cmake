# `cmake --install`: libraries, headers, the command line, what find_package and pkg-config read, a
# systemd unit; and `cpack` in the build folder, which puts the same into a Debian package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(headers ${PROJECT_SOURCE_DIR}/include/sluice)
install(FILES ${headers}/asio.hpp ${headers}/caf.hpp ${headers}/config.hpp ${headers}/engine.hpp
              ${headers}/error.hpp ${headers}/events.hpp ${headers}/request.hpp
              ${headers}/stop_rule.hpp ${headers}/web.hpp
              ${PROJECT_BINARY_DIR}/generated/include/sluice/version.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice)
install(TARGETS sluice_shared sluice_web_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS sluice_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS sluice RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/models/demo-q8_0.gguf
        DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/models)

# -- find_package(Sluice) and pkg-config ----------------------------------------------------------

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/SluiceConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/SluiceConfig.cmake
  INSTALL_DESTINATION ${package_dir}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/SluiceConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
set(SLUICE_CUDA_LIBS "")
if(SLUICE_HAVE_CUDA)  # for who links the archive
  set(SLUICE_CUDA_LIBS " -lcudart_static -ldl -lrt")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/sluice.pc.in ${PROJECT_BINARY_DIR}/package/sluice.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/SluiceConfig.cmake
              ${PROJECT_BINARY_DIR}/package/SluiceConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindCAF.cmake
        DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/package/sluice.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# -- the service, and what a package has besides --------------------------------------------------

# Where units belong is systemd's choice, not a folder of GNU's.
set(SLUICE_UNIT_DIR lib/systemd/system CACHE STRING "Where the systemd unit goes, below the prefix")
set(SLUICE_MAINTAINER "The Sluice developers <sluice@localhost>" CACHE STRING "Of the Debian package")
install(FILES ${PROJECT_SOURCE_DIR}/packaging/sluice.service DESTINATION ${SLUICE_UNIT_DIR})

# sluice_install_compressed(SOURCE NAME FOLDER): filled in and packed, as Debian has it.
function(sluice_install_compressed source name folder)
  set(file ${PROJECT_BINARY_DIR}/package/${name})
  configure_file(${PROJECT_SOURCE_DIR}/packaging/${source} ${file} @ONLY)
  execute_process(COMMAND gzip -9nkf ${file} COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${file}.gz DESTINATION ${folder})
endfunction()
sluice_install_compressed(sluice.1.in sluice.1 ${CMAKE_INSTALL_MANDIR}/man1)
sluice_install_compressed(changelog.in changelog ${CMAKE_INSTALL_DATADIR}/doc/sluice)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/lintian-overrides
        DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME sluice)

# -- cpack -G DEB ---------------------------------------------------------------------------------

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_VENDOR Sluice)
set(CPACK_PACKAGE_CONTACT ${SLUICE_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "streams large language models, as a server and a library")
set(CPACK_PACKAGE_DESCRIPTION
"Serves a language model to a live web page, over WebSockets and an
OpenAI-compatible API, and puts the same engine into C++ programs with
callbacks, Asio coroutines or CAF actors.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libcaf-dev, libboost1.81-dev")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/postinst
    ${PROJECT_SOURCE_DIR}/packaging/prerm ${PROJECT_SOURCE_DIR}/packaging/postrm ${PROJECT_SOURCE_DIR}/packaging/triggers)
include(CPack)
