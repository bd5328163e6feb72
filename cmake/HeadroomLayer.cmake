# headroom_layer(NAME [PURE] SOURCES file... [USES layer-or-library...])
#
# Declares one folder of the table in docs/ARCHITECTURE.md as the static library hr_NAME. USES names the layers below
# it and outside libraries; a layer that is not declared yet is an error, so circles cannot be built. A PURE layer is
# listed in HEADROOM_PURE_LAYERS: tests/lint/check_purity.sh holds its symbols against a deny-list.
function(headroom_layer name)
  cmake_parse_arguments(arg "PURE" "" "SOURCES;USES" ${ARGN})
  add_library(hr_${name} STATIC ${arg_SOURCES})
  target_link_libraries(hr_${name} PUBLIC headroom_options)
  foreach(used IN LISTS arg_USES)
    if(used MATCHES "^hr_" AND NOT TARGET ${used})
      message(FATAL_ERROR "layer ${name} uses ${used}, which is not below it")
    endif()
    target_link_libraries(hr_${name} PUBLIC ${used})
  endforeach()
  if(arg_PURE)
    set_property(GLOBAL APPEND PROPERTY HEADROOM_PURE_LAYERS hr_${name})
  endif()
endfunction()

# headroom_write_pure_layers(): the paths of all pure libraries, one a line, in BUILD/pure_layers.txt.
function(headroom_write_pure_layers)
  get_property(layers GLOBAL PROPERTY HEADROOM_PURE_LAYERS)
  list(TRANSFORM layers REPLACE "(.+)" "$<TARGET_FILE:\\1>\n")
  list(JOIN layers "" paths)
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/pure_layers.txt" CONTENT "${paths}")
endfunction()

# headroom_program(NAME SOURCES file... USES layer...): a program that is installed.
function(headroom_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE headroom_options ${arg_USES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}" HEADROOM_LTO ON)
  install(TARGETS ${name} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endfunction()

# headroom_tests(FOLDER USES layer...): each test_*.c of tests/unit/FOLDER is one cmocka program and one ctest entry.
function(headroom_tests folder)
  cmake_parse_arguments(arg "" "" "USES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/unit/${folder}/test_*.c")
  foreach(source IN LISTS sources)
    get_filename_component(stem "${source}" NAME_WE)
    string(REGEX REPLACE "^test_" "" subject "${stem}")
    set(target unit_${folder}_${subject})
    add_executable(${target} "${source}")
    target_link_libraries(${target} PRIVATE headroom_options ${arg_USES} headroom_cmocka)
    add_test(NAME unit/${folder}/${subject} COMMAND ${target} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(unit/${folder}/${subject} PROPERTIES LABELS unit)
  endforeach()
endfunction()

# headroom_fuzzers(USES layer...): each tests/fuzz/fuzz_NAME.c is a program with its seeds in tests/fuzz/corpus/NAME.
# With HEADROOM_FUZZ it is linked to libFuzzer (tests/fuzz/run.sh runs them all), else to a small main that feeds it the
# seeds once, as a test. The target `fuzzers` builds all.
function(headroom_fuzzers)
  cmake_parse_arguments(arg "" "" "USES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.c")
  add_custom_target(fuzzers)
  foreach(source IN LISTS sources)
    get_filename_component(target "${source}" NAME_WE)
    string(REGEX REPLACE "^fuzz_" "" subject "${target}")
    add_executable(${target} "${source}")
    add_dependencies(fuzzers ${target})
    target_link_libraries(${target} PRIVATE headroom_options ${arg_USES})
    if(HEADROOM_FUZZ)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    else()
      target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/lib/corpus_main.c")
      add_test(NAME corpus/${subject} COMMAND ${target} "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${subject}")
      set_tests_properties(corpus/${subject} PROPERTIES LABELS corpus)
    endif()
  endforeach()
endfunction()

# headroom_lint(NAME SCRIPT argument...): a script of tests/lint as the test lint/NAME.
function(headroom_lint name script)
  add_test(NAME lint/${name} COMMAND sh "${PROJECT_SOURCE_DIR}/tests/lint/${script}" ${ARGN})
  set_tests_properties(lint/${name} PROPERTIES LABELS lint)
endfunction()
