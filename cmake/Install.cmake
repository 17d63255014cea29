# `cmake --install build/release --prefix DIR`: the program, and what programs of users link (docs/cpp.md), as the package that
# find_package(Leat) finds: the public headers, the static libraries behind leat_main, and cmake/LeatConfig.cmake.in.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# The house targets that `target` is linked with, and itself.
function(leat_linked target found)
  set(all ${target})
  set(todo ${target})
  while(todo)
    list(POP_FRONT todo at)
    get_target_property(links ${at} INTERFACE_LINK_LIBRARIES)
    string(REGEX MATCHALL "leat_[a-z_]+" links "${links}")
    foreach(link IN LISTS links)
      if(TARGET ${link} AND NOT link STREQUAL leat_flags AND NOT link IN_LIST all)
        list(APPEND all ${link})
        list(APPEND todo ${link})
      endif()
    endforeach()
  endwhile()
  set(${found} ${all} PARENT_SCOPE)
endfunction()

leat_linked(leat_main libraries)
foreach(library IN LISTS libraries)
  string(REGEX REPLACE "^leat_" "" name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
endforeach()
set_target_properties(leat_main PROPERTIES EXPORT_NAME leat)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Leat)
install(TARGETS leat)
if(TARGET leat_mpi)
  install(TARGETS leat_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR})  # the program looks for it in its own folder
endif()
install(TARGETS ${libraries} EXPORT LeatTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/leat)
install(EXPORT LeatTargets NAMESPACE Leat:: DESTINATION ${package})
configure_package_config_file(cmake/LeatConfig.cmake.in ${CMAKE_BINARY_DIR}/LeatConfig.cmake INSTALL_DESTINATION ${package})
# Programs and libraries of two versions do not mix.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/LeatConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_BINARY_DIR}/LeatConfig.cmake ${CMAKE_BINARY_DIR}/LeatConfigVersion.cmake DESTINATION ${package})

# src/cli/leat.h and the headers that it reaches, found when they are installed.
install(CODE "
  set(LEAT_SOURCE \"${CMAKE_SOURCE_DIR}\")
  set(LEAT_INCLUDE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/leat\")
  include(\"${CMAKE_SOURCE_DIR}/cmake/InstallHeaders.cmake\")")
