# The library `llhttp`, compiled from the C source that Debian's node-llhttp ships: there is no package of it in binary
# form. Strict, and without our warnings: it is generated.
find_path(LLHTTP_SOURCE_DIR llhttp.c PATHS /usr/local/share /usr/share PATH_SUFFIXES llhttp REQUIRED)
find_path(LLHTTP_INCLUDE_DIR llhttp.h PATHS /usr/local/share/include /usr/share/include PATH_SUFFIXES llhttp REQUIRED)
add_library(llhttp STATIC
  "${LLHTTP_SOURCE_DIR}/api.c" "${LLHTTP_SOURCE_DIR}/http.c" "${LLHTTP_SOURCE_DIR}/llhttp.c")
target_compile_definitions(llhttp PRIVATE LLHTTP_STRICT_MODE=1)
target_include_directories(llhttp SYSTEM PUBLIC "${LLHTTP_INCLUDE_DIR}")
if(HEADROOM_SANITIZE)
  target_compile_options(llhttp PRIVATE -fsanitize=${HEADROOM_SANITIZE} -fno-sanitize-recover=all)
endif()
if(HEADROOM_FUZZ)
  target_compile_options(llhttp PRIVATE -fsanitize=fuzzer-no-link)
endif()
