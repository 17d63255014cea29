# Configures and builds the preset `plain` in ROOT.
foreach(arguments "--preset;plain" "--build;--preset;plain")
  execute_process(COMMAND ${CMAKE_COMMAND} ${arguments} WORKING_DIRECTORY ${ROOT} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
