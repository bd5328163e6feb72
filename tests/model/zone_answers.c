/* Answers questions about time zones, for zone_oracle.py: each line of input, FILE UNIT INSTANT, gives a line of
 * output, OFFSET NUMBER BEGIN END. UNIT is that of enum hr_calendar_unit, an index. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/calendar.h"

static void load(const char *path, struct hr_zone *ret_zone)
{
    static char data[HR_ZONE_FILE_BYTES_MAX];
    FILE *file = fopen(path, "rb");
    size_t bytes = file == NULL ? 0 : fread(data, 1, sizeof data, file);
    if (hr_zone_parse((struct hr_span){data, bytes}, ret_zone) != HR_OK) {
        (void)fprintf(stderr, "no zone: %s\n", path);
        exit(EXIT_FAILURE);
    }
    (void)fclose(file); /* it was only read */
}

int main(void)
{
    static struct hr_zone zone;
    char line[512], loaded[256] = "";
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *at = strchr(line, ' '), *path = line;
        if (at == NULL || (size_t)(at - line) >= sizeof loaded) {
            return EXIT_FAILURE;
        }
        *at++ = '\0';
        unsigned long unit = strtoul(at, &at, 10);
        int64_t at_s = strtoll(at, NULL, 10);
        if (strcmp(path, loaded) != 0) {
            load(path, &zone);
            memcpy(loaded, path, strlen(path) + 1);
        }
        struct hr_period period = hr_period_at(&zone, (enum hr_calendar_unit)unit, at_s);
        printf("%d %" PRId64 " %" PRId64 " %" PRId64 "\n", hr_zone_offset_at(&zone, at_s).offset_s, period.number,
               period.begin_s, period.end_s);
    }
    return EXIT_SUCCESS;
}
