/* Zoneinfo: reads the machine's compiled time zones, for tests. Fails the running test where there are none. */
#ifndef HR_TESTS_LIB_ZONEINFO_H
#define HR_TESTS_LIB_ZONEINFO_H

#include <fts.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/zone.h"

#define ZONEINFO_DIR "/usr/share/zoneinfo"

struct zoneinfo_file {
    size_t bytes;
    char data[HR_ZONE_FILE_BYTES_MAX];
};

static inline void zoneinfo_read(const char *path, struct zoneinfo_file *ret_file)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot read %s", path);
        return;
    }
    ret_file->bytes = fread(ret_file->data, 1, sizeof ret_file->data, file);
    (void)fclose(file); /* only read */
}

static inline struct hr_span zoneinfo_span(const struct zoneinfo_file *file)
{
    return (struct hr_span){file->data, file->bytes};
}

/* The zone of that IANA name. */
static inline void zoneinfo_load(const char *name, struct hr_zone *ret_zone)
{
    static struct zoneinfo_file file;
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", ZONEINFO_DIR, name);
    zoneinfo_read(path, &file);
    if (hr_zone_parse(zoneinfo_span(&file), ret_zone) != HR_OK) {
        fail_msg("cannot parse %s", path);
    }
}

/* Calls visit for every zone there is, but not for the copies in posix/ and those with leap seconds in right/.
 * Returns how many. */
static inline size_t zoneinfo_each(void (*visit)(const char *name, const struct hr_zone *zone))
{
    static struct hr_zone zone;
    static struct zoneinfo_file file;
    char root[] = ZONEINFO_DIR;
    char *roots[] = {root, NULL};
    size_t count = 0;
    FTS *walk = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    assert_non_null(walk);
    for (FTSENT *entry = fts_read(walk); entry != NULL; entry = fts_read(walk)) {
        if (entry->fts_info == FTS_D &&
            (strcmp(entry->fts_name, "posix") == 0 || strcmp(entry->fts_name, "right") == 0)) {
            (void)fts_set(walk, entry, FTS_SKIP);
        }
        if (entry->fts_info != FTS_F) {
            continue;
        }
        zoneinfo_read(entry->fts_path, &file);
        if (file.bytes < 4 || memcmp(file.data, "TZif", 4) != 0) {
            continue; /* the tables beside them */
        }
        if (hr_zone_parse(zoneinfo_span(&file), &zone) != HR_OK) {
            fail_msg("cannot parse %s", entry->fts_path);
        }
        visit(entry->fts_path + sizeof root, &zone);
        count++;
    }
    (void)fts_close(walk);
    return count;
}

#endif
