/* Runs a fuzz target over its seeds without libFuzzer, so that every build tests each decoder:
 *
 *   fuzz_NAME DIRECTORY
 *
 * Each seed is fed whole, and a seed of up to PREFIXED_BYTES_MAX also cut short at every length. The bytes lie in a
 * heap block of exactly their size, so that a sanitizer sees the first byte read past their end. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PREFIXED_BYTES_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static _Noreturn void fail(const char *what, const char *where)
{
    (void)fprintf(stderr, "corpus: %s (%s)\n", what, where);
    exit(EXIT_FAILURE);
}

static void feed(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL) {
        fail("out of memory", "feed");
    }
    memcpy(copy, data, bytes);
    (void)LLVMFuzzerTestOneInput(copy, bytes); /* its result is only a hint to libFuzzer */
    free(copy);
}

/* The file's bytes on the heap; one byte more than needed, so that an empty file is no special case. */
static uint8_t *read_file(const char *path, size_t *ret_bytes)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (file == NULL || fstat(fileno(file), &info) != 0) {
        fail("cannot open", path);
    }
    size_t bytes = (size_t)info.st_size;
    uint8_t *data = malloc(bytes + 1);
    if (data == NULL || fread(data, 1, bytes, file) != bytes) {
        fail("cannot read", path);
    }
    (void)fclose(file); /* it was only read */
    *ret_bytes = bytes;
    return data;
}

static void feed_seed(const char *path)
{
    size_t bytes;
    uint8_t *data = read_file(path, &bytes);
    for (size_t cut = 0; bytes <= PREFIXED_BYTES_MAX && cut < bytes; cut++) {
        feed(data, cut);
    }
    feed(data, bytes);
    free(data);
}

static int is_seed(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fail("want one folder of seeds", argv[0]);
    }
    struct dirent **entries;
    int count = scandir(argv[1], &entries, is_seed, alphasort);
    if (count <= 0) {
        fail("no seeds", argv[1]);
    }
    for (int i = 0; i < count; i++) {
        char path[4096];
        int length = snprintf(path, sizeof(path), "%s/%s", argv[1], entries[i]->d_name);
        if (length < 0 || (size_t)length >= sizeof(path)) {
            fail("path too long", entries[i]->d_name);
        }
        printf("%s\n", path); /* before it is fed: a crash has its seed's name above it */
        (void)fflush(stdout);
        feed_seed(path);
        free(entries[i]);
    }
    free(entries);
    return EXIT_SUCCESS;
}
