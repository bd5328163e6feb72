# What every target is compiled with. Warnings are errors in presets and CI (HEADROOM_WERROR), not for packagers.

option(HEADROOM_WERROR "Treat warnings as errors" OFF)
option(HEADROOM_DEFECTS "Build in the deliberate defects of base/defect.h, for the simulator to find" OFF)
option(HEADROOM_FUZZ "Build the libFuzzer targets (clang only)" OFF)
set(HEADROOM_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them: address,undefined or thread")

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
if(HEADROOM_FUZZ AND NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "HEADROOM_FUZZ needs clang: libFuzzer is a part of it")
endif()

add_library(headroom_options INTERFACE)
target_include_directories(headroom_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_definitions(headroom_options INTERFACE _GNU_SOURCE)
target_compile_options(headroom_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes
  -Wold-style-definition -Wcast-align -Wcast-qual -Wpointer-arith -Wwrite-strings -Wundef -Wvla -Wformat=2
  -Wswitch-enum -Wimplicit-fallthrough -Wdouble-promotion -Wnull-dereference -fno-common
  -fstack-protector-strong)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(headroom_options INTERFACE -Wlogical-op -Wduplicated-cond -Wduplicated-branches)
endif()
if(HEADROOM_DEFECTS)
  target_compile_definitions(headroom_options INTERFACE HEADROOM_DEFECTS)
endif()
if(HEADROOM_WERROR)
  target_compile_options(headroom_options INTERFACE -Werror)
endif()
if(HEADROOM_SANITIZE)
  set(flags -fsanitize=${HEADROOM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(headroom_options INTERFACE ${flags})
  target_link_options(headroom_options INTERFACE ${flags})
endif()
if(HEADROOM_FUZZ)
  target_compile_options(headroom_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# A decision runs through many small functions of many files: a release is optimized across them. gcc's objects hold
# plain code as well, which is what tests are linked from, quickly, and what tests/lint/check_purity.sh reads.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT HEADROOM_SANITIZE)
  target_compile_options(headroom_options INTERFACE -flto=auto -ffat-lto-objects)
  # Not to copy two words, as of an identity, that were just written one by one as if they were one of 16 bytes: such a
  # load waits until both are in the cache. It cost a decision some 7 ns of 60.
  target_compile_options(headroom_options INTERFACE -fno-tree-slp-vectorize)
  target_link_options(headroom_options INTERFACE $<IF:$<BOOL:$<TARGET_PROPERTY:HEADROOM_LTO>>,-flto=auto,-fno-lto>)
endif()

# For tests. cmocka's assertions do not tell a compiler that they do not return.
add_library(headroom_cmocka INTERFACE)
target_link_libraries(headroom_cmocka INTERFACE headroom_options cmocka)
target_compile_options(headroom_cmocka INTERFACE -Wno-null-dereference)
