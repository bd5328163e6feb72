#include "node/zone_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/file_bytes.h"

#define ZONEINFO_FOLDER "/usr/share/zoneinfo"

struct hr_zone_entry {
    struct hr_zone_entry *next;
    char name[HR_ZONE_NAME_BYTES_MAX + 1];
    struct hr_zone zone;
};

/* No dot is allowed, so no part can be `..`. */
static bool is_zone_name(struct hr_span name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/-";
    if (name.bytes < 1 || name.bytes > HR_ZONE_NAME_BYTES_MAX || name.at[0] == '/') {
        return false;
    }
    for (size_t i = 0; i < name.bytes; i++) {
        if (name.at[i] == '\0' || strchr(allowed, name.at[i]) == NULL) {
            return false;
        }
    }
    return true;
}

static bool is_utc(struct hr_span name)
{
    return hr_span_equal(name, HR_SPAN("UTC")) || hr_span_equal(name, HR_SPAN("Etc/UTC"));
}

static enum hr_err parse_file(const char *path, struct hr_zone *ret_zone)
{
    struct hr_file_bytes file;
    struct hr_problem ignored; /* the caller tells the zone's name, which says more than a path */
    if (!hr_file_read(path, HR_ZONE_FILE_BYTES_MAX, &file, &ignored)) {
        return HR_E_NOT_FOUND;
    }
    enum hr_err err = hr_zone_parse((struct hr_span){file.at, file.bytes}, ret_zone);
    free(file.at);
    return err;
}

static enum hr_err load(struct hr_span name, struct hr_zone_entry *entry)
{
    char path[512];
    const char *folder = getenv("TZDIR");
    folder = folder == NULL || folder[0] == '\0' ? ZONEINFO_FOLDER : folder;
    memcpy(entry->name, name.at, name.bytes);
    entry->name[name.bytes] = '\0';
    int count = snprintf(path, sizeof(path), "%s/%s", folder, entry->name);
    if (count < 0 || (size_t)count >= sizeof(path)) {
        return HR_E_NOT_FOUND;
    }
    return parse_file(path, &entry->zone);
}

enum hr_err hr_zone_list_find(struct hr_zone_list *list, struct hr_span name, const struct hr_zone **ret_zone)
{
    if (!is_zone_name(name)) {
        return HR_E_NOT_FOUND;
    }
    if (is_utc(name)) {
        *ret_zone = NULL;
        return HR_OK;
    }
    for (struct hr_zone_entry *entry = list->first; entry != NULL; entry = entry->next) {
        if (hr_span_equal(hr_span_of(entry->name), name)) {
            *ret_zone = &entry->zone;
            return HR_OK;
        }
    }
    struct hr_zone_entry *entry = malloc(sizeof(*entry));
    if (entry == NULL) {
        return HR_E_MEMORY;
    }
    enum hr_err err = load(name, entry);
    if (err != HR_OK) {
        free(entry);
        return err;
    }
    entry->next = list->first;
    list->first = entry;
    *ret_zone = &entry->zone;
    return HR_OK;
}

void hr_zone_list_free(struct hr_zone_list *list)
{
    while (list->first != NULL) {
        struct hr_zone_entry *entry = list->first;
        list->first = entry->next;
        free(entry);
    }
}
