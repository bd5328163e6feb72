#include "node/command/cmd_config.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "node/command/cmd.h"
#include "node/config_yaml.h"
#include "node/doc_yaml.h"
#include "node/limits_yaml.h"

#define NOTES_MAX 16 /* a person reads no more */
#define NOTE_BYTES 256

static const char help[] =
    "usage: headroom config check [--json] FILE\n"
    "\n"
    "Reads a node file, and the limits file that it names, or a limits file, as a node does,\n"
    "and says what is wrong with it and where. The file's own keys tell which of the two it is.\n"
    "The secret file is not read: it may be on another machine.\n"
    "\n"
    "  --json     print the answer as JSON: {\"ok\":true,\"kind\":\"limits\",\"limits\":N}, or\n"
    "             {\"ok\":true,\"kind\":\"node\",\"node\":NAME,\"region\":NAME,\"limits\":N}, with\n"
    "             \"notes\":[TEXT...] where something is allowed, but hardly meant\n"
    "  --help     print this\n"
    "  --version  print the version\n"
    "\n"
    "Exit status: 0 the file is right, 2 it is wrong or cannot be read.\n";

/* Whether all could be written, main asks at the end. */

static bool count_limits(const char *path, uint32_t *ret_count, struct hr_problem *ret_problem)
{
    struct hr_limits_file *file = hr_limits_file_load(path, ret_problem);
    if (file == NULL) {
        return false;
    }
    *ret_count = file->limit_count;
    hr_limits_file_free(file);
    return true;
}

static void print_limits(const char *path, uint32_t count)
{
    (void)printf("%s: ok, %" PRIu32 " limit%s\n", path, count, count == 1 ? "" : "s");
}

static int check_limits(const char *path, bool is_json)
{
    struct hr_problem problem;
    uint32_t count = 0;
    if (!count_limits(path, &count, &problem)) {
        return hr_cmd_fail(&problem);
    }
    if (is_json) {
        (void)printf("{\"ok\":true,\"kind\":\"limits\",\"limits\":%" PRIu32 "}\n", count);
    } else {
        print_limits(path, count);
    }
    return HR_EXIT_DONE;
}

/* What is allowed, but hardly meant: the first NOTES_MAX sentences about it. */
struct notes {
    uint32_t count;
    char texts[NOTES_MAX][NOTE_BYTES];
};

static void note_doubt(struct notes *notes, const char *doubt)
{
    if (doubt != NULL) {
        (void)snprintf(notes->texts[notes->count++], NOTE_BYTES, "%s", doubt);
    }
}

/* Each region's bucket must hold one whole request: of fewer tokens than regions not every region can have one. */
static void note_small_cap(struct notes *notes, const struct hr_limit *limit, uint32_t region_count)
{
    if (limit->scope != HR_SCOPE_GLOBAL || limit->rule.capacity >= region_count || notes->count == NOTES_MAX) {
        return;
    }
    (void)snprintf(notes->texts[notes->count++], NOTE_BYTES,
                   "the global limit %.*s holds %" PRIu64 " for %" PRIu32
                   " regions: fewer than regions, so none of them can be promised a reserve",
                   (int)limit->name.bytes, limit->name.at, limit->rule.capacity, region_count);
}

static void note_small_caps(struct notes *notes, const struct hr_limits_file *file, uint32_t region_count)
{
    for (uint32_t i = 0; i < file->limit_count; i++) {
        note_small_cap(notes, &file->limits[i], region_count);
    }
}

/* Names in a node file, and in a note, need no escaping: they are [a-z0-9-]. */
static void print_node_json(const struct hr_node_config *config, uint32_t limit_count, const struct notes *notes)
{
    (void)printf("{\"ok\":true,\"kind\":\"node\",\"node\":\"%s\",\"region\":\"%s\",\"limits\":%" PRIu32, config->name,
                 config->region, limit_count);
    for (uint32_t i = 0; i < notes->count; i++) {
        (void)printf("%s\"%s\"", i == 0 ? ",\"notes\":[" : ",", notes->texts[i]);
    }
    (void)puts(notes->count > 0 ? "]}" : "}");
}

static void print_node(const struct hr_node_config *config, const char *path, uint32_t limit_count,
                       const struct notes *notes)
{
    (void)printf("%s: ok, node %s in region %s\n", path, config->name, config->region);
    if (config->limits[0] != '\0') {
        print_limits(config->limits, limit_count);
    }
    for (uint32_t i = 0; i < notes->count; i++) {
        (void)printf("note: %s\n", notes->texts[i]);
    }
}

static int check_node(const char *path, bool is_json)
{
    struct hr_problem problem;
    static struct hr_node_config config;
    struct notes notes = {.count = 0};
    uint32_t limit_count = 0;
    if (!hr_node_config_load(path, &config, &problem)) {
        return hr_cmd_fail(&problem);
    }
    note_doubt(&notes, hr_node_config_doubt(&config));
    if (config.limits[0] != '\0') {
        struct hr_limits_file *file = hr_limits_file_load(config.limits, &problem);
        if (file == NULL) {
            return hr_cmd_fail(&problem);
        }
        limit_count = file->limit_count;
        note_small_caps(&notes, file, config.region_count);
        hr_limits_file_free(file);
    }
    if (is_json) {
        print_node_json(&config, limit_count, &notes);
    } else {
        print_node(&config, path, limit_count, &notes);
    }
    return HR_EXIT_DONE;
}

/* The file is read once more by the reader of its kind, which is short work beside a person's reading of the answer. */
static int check(const char *path, bool is_json)
{
    struct hr_problem problem;
    struct hr_doc *doc = hr_doc_load(path, &problem);
    if (doc == NULL) {
        return hr_cmd_fail(&problem);
    }
    bool is_node = hr_doc_is_node_config(doc);
    hr_doc_free(doc);
    return is_node ? check_node(path, is_json) : check_limits(path, is_json);
}

int hr_cmd_config(int argc, char **argv)
{
    enum { JSON = HR_OPTION_OWN };
    static const struct option table[] = {{"json", no_argument, NULL, JSON}, HR_OPTIONS_COMMON};
    bool is_json = false;
    int option = 0, status = HR_EXIT_DONE;
    while ((option = hr_cmd_option(argc, argv, table, help, &status)) != HR_OPTION_END) {
        if (option != JSON) {
            return status;
        }
        is_json = true;
    }
    if (optind == argc || strcmp(argv[optind], "check") != 0) {
        return hr_cmd_usage(argv[0], "config can only check: config check FILE");
    }
    if (argc - optind != 2) {
        return hr_cmd_usage(argv[0], argc - optind < 2 ? "no file was given" : "one file at a time");
    }
    if (argv[optind + 1][0] == '\0') {
        return hr_cmd_usage(argv[0], "the name of the file is empty");
    }
    return check(argv[optind + 1], is_json);
}
