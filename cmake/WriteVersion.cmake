# Writes OUTPUT, the source of leat::roles::ProgramVersion, when the version has changed:
#
#   cmake -DSOURCE=DIR -DVERSION=0.1.0 -DTEMPLATE=version.cc.in -DOUTPUT=version.cc -P WriteVersion.cmake
#
# The version is "0.1.0+<commit>" for an unchanged checkout at a commit, "0.1.0+<commit>.changed.<hash of the changes>" for
# a changed one, and "0.1.0+no-git-commit" for a source tree without git. All processes of a job must have the same.
set(commit "")
if(EXISTS ${SOURCE}/.git)
  find_program(GIT git)
  if(GIT)
    # The sources may belong to another user, as in containers.
    set(git ${GIT} -C ${SOURCE} -c safe.directory=*)
    execute_process(COMMAND ${git} rev-parse --short=12 HEAD
                    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND ${git} diff --no-ext-diff --binary HEAD OUTPUT_VARIABLE changes ERROR_QUIET)
  endif()
endif()
if(NOT commit)
  set(commit no-git-commit)
elseif(changes)
  string(SHA256 hash "${changes}")
  string(SUBSTRING ${hash} 0 8 hash)
  string(APPEND commit .changed.${hash})
endif()
set(LEAT_PROGRAM_VERSION ${VERSION}+${commit})
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)  # leaves an equal file alone
