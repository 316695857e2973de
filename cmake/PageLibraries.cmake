# The libraries that the page shows Markdown with (web/page/package.json), from npm.
#
#   sluice_page_libraries(FOLDER STAMP)   sets both variables: a folder with marked.js, purify.js,
#                                         highlight.js and LICENSES.txt, and the file to depend on
#
# Without npm, or without a network, the folder stays empty and the page shows plain text; the
# build goes on. Also run as a script at build time: cmake -DFROM=... -DTO=... -P ...

function(sluice_page_libraries folder stamp)
  set(to ${CMAKE_CURRENT_BINARY_DIR}/page_libraries)
  set(from ${PROJECT_SOURCE_DIR}/web/page)
  add_custom_command(
    OUTPUT ${to}.stamp
    COMMAND ${CMAKE_COMMAND} -DFROM=${from} -DTO=${to} -DNPM=${SLUICE_NPM}
            -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    DEPENDS ${from}/package.json ${from}/package-lock.json ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    COMMENT "Fetching the page's libraries"
    VERBATIM)
  set(${folder} ${to} PARENT_SCOPE)
  set(${stamp} ${to}.stamp PARENT_SCOPE)
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  option(SLUICE_PAGE_LIBRARIES "Take the page's libraries from npm; without, it shows plain text" ON)
  set(SLUICE_NPM "")
  if(SLUICE_PAGE_LIBRARIES)
    find_program(NPM_PROGRAM npm)
    if(NPM_PROGRAM)
      set(SLUICE_NPM ${NPM_PROGRAM})
    endif()
  endif()
  return()
endif()

set(kPlain "the page will show plain text instead of Markdown. To try again, delete ${TO}.stamp")
file(REMOVE_RECURSE ${TO})
file(MAKE_DIRECTORY ${TO})
file(WRITE ${TO}.stamp "")
if(NOT NPM)
  message(STATUS "There is no npm, or it is not wanted: ${kPlain}.")
  return()
endif()

set(work ${TO}.npm)
foreach(name package.json package-lock.json .npmrc)
  configure_file(${FROM}/${name} ${work}/${name} COPYONLY)
endforeach()
execute_process(
  COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund --silent
  WORKING_DIRECTORY ${work} TIMEOUT 120 RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
set(modules ${work}/node_modules)
set(marked ${modules}/marked)
set(purify ${modules}/dompurify)
set(highlight ${modules}/@highlightjs/cdn-assets)
if(failed OR NOT EXISTS ${marked}/lib/marked.esm.js OR NOT EXISTS ${purify}/dist/purify.min.js
   OR NOT EXISTS ${highlight}/es/highlight.min.js)
  message(STATUS "npm could not fetch the page's libraries (${failed}): ${kPlain}.")
  return()
endif()
configure_file(${marked}/lib/marked.esm.js ${TO}/marked.js COPYONLY)
configure_file(${purify}/dist/purify.min.js ${TO}/purify.js COPYONLY)
configure_file(${highlight}/es/highlight.min.js ${TO}/highlight.js COPYONLY)
set(licenses "")
foreach(library marked purify highlight)
  file(READ ${${library}}/LICENSE text)
  string(APPEND licenses "${library}\n\n${text}\n\n")
endforeach()
file(WRITE ${TO}/LICENSES.txt "${licenses}")
