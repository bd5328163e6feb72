#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gossip/member.h"
#include "node/command/ask.h"
#include "node/value_text.h"
#include "rpc/pairs.h"

static const char help[] =
    "usage: headroom members [--partitions] [OPTION...]\n"
    "       headroom members forget NAME [OPTION...]\n"
    "\n"
    "Prints the nodes of the cluster as the node that is asked knows them. A node that is dead or has\n"
    "left stays on the list, and counts in its region's majority while it is dead, until it is\n"
    "forgotten: do that only to a node that will not come back.\n"
    "\n"
    "  --partitions      also print how many of its region's partitions each node owns, and of how many\n"
    "                    it is the standby; with --json, which ones\n" HR_ASK_HELP "\n"
    "Exit status: 0 done, 2 wrong usage, or no such node that could be forgotten, 3 the node did not\n"
    "answer.\n";

enum { NAME, REGION, STATE, RPC, GOSSIP, TEXT_COUNT };

static const char *const titles[TEXT_COUNT] = {"name", "region", "state", "rpc", "gossip"};

struct row {
    struct hr_span texts[TEXT_COUNT];
    uint64_t incarnation;
    uint32_t owned, stood_by;
};

struct table {
    uint64_t view;
    bool has_partitions;
    uint32_t count;
    struct row rows[HR_MEMBERS_MAX];
};

/* --- reading; keys that are not known are stepped over --- */

static enum hr_err read_field(const struct hr_pair *pair, struct row *row)
{
    struct hr_unpacker in = {pair->value};
    if (hr_span_equal(pair->key, HR_SPAN("incarnation"))) {
        return hr_unpack_whole(&in, &row->incarnation);
    }
    for (int i = 0; i < TEXT_COUNT; i++) {
        if (hr_span_equal(pair->key, hr_span_of(titles[i]))) {
            return hr_unpack_text(&in, &row->texts[i]);
        }
    }
    return HR_OK;
}

static enum hr_err read_row(struct hr_span map, struct row *row)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    *row = (struct row){.incarnation = 0};
    enum hr_err err = hr_pairs_begin(&pairs, map);
    while (err == HR_OK && (err = hr_pairs_next(&pairs, &pair)) == HR_OK) {
        err = read_field(&pair, row);
    }
    return err == HR_E_NOT_FOUND ? HR_OK : err;
}

static enum hr_err read_rows(struct hr_span array, struct table *table)
{
    struct hr_unpacker in = {array};
    enum hr_err err = hr_unpack_array(&in, &table->count);
    if (err == HR_OK && table->count > HR_MEMBERS_MAX) {
        return HR_E_TOO_MANY;
    }
    for (uint32_t i = 0; i < table->count && err == HR_OK; i++) {
        struct hr_span map;
        err = hr_unpack_skip(&in, &map);
        err = err == HR_OK ? read_row(map, &table->rows[i]) : err;
    }
    return err;
}

static enum hr_err count_places(struct hr_span array, bool is_owner, struct table *table)
{
    struct hr_unpacker in = {array};
    uint32_t count = 0;
    enum hr_err err = hr_unpack_array(&in, &count);
    for (uint32_t i = 0; i < count && err == HR_OK; i++) {
        int64_t place = -1;
        err = hr_unpack_signed(&in, &place);
        if (err == HR_OK && place >= 0 && place < (int64_t)table->count) {
            table->rows[place].owned += is_owner;
            table->rows[place].stood_by += !is_owner;
        }
    }
    return err;
}

static enum hr_err find(struct hr_span map, struct hr_span key, struct hr_span *ret_value)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    enum hr_err err = hr_pairs_begin(&pairs, map);
    while (err == HR_OK && (err = hr_pairs_next(&pairs, &pair)) == HR_OK) {
        if (hr_span_equal(pair.key, key)) {
            *ret_value = pair.value;
            return HR_OK;
        }
    }
    return err;
}

static enum hr_err read_partitions(struct hr_span result, struct table *table)
{
    struct hr_span partitions, owners, standbys;
    enum hr_err err = find(result, HR_SPAN("partitions"), &partitions);
    table->has_partitions = err == HR_OK;
    if (err != HR_OK) {
        return err == HR_E_NOT_FOUND ? HR_OK : err;
    }
    err = find(partitions, HR_SPAN("owners"), &owners);
    err = err == HR_OK ? count_places(owners, true, table) : err;
    err = err == HR_OK ? find(partitions, HR_SPAN("standbys"), &standbys) : err;
    return err == HR_OK ? count_places(standbys, false, table) : err;
}

static enum hr_err read_table(struct hr_span result, struct table *table)
{
    struct hr_span view, members;
    enum hr_err err = find(result, HR_SPAN("view"), &view);
    if (err == HR_OK) {
        struct hr_unpacker in = {view};
        err = hr_unpack_whole(&in, &table->view);
    }
    err = err == HR_OK ? find(result, HR_SPAN("members"), &members) : err;
    err = err == HR_OK ? read_rows(members, table) : err;
    return err == HR_OK ? read_partitions(result, table) : err;
}

/* --- printing --- */

/* Names and addresses are ASCII: bytes are columns. */
static int width_of(const struct table *table, int column)
{
    size_t width = strlen(titles[column]);
    for (uint32_t i = 0; i < table->count; i++) {
        width = table->rows[i].texts[column].bytes > width ? table->rows[i].texts[column].bytes : width;
    }
    return (int)width;
}

static void print_text(struct hr_span text, int width)
{
    hr_text_print(stdout, text);
    (void)printf("%*s", width - (int)text.bytes + 2, "");
}

static void print_table(const struct table *table)
{
    int widths[TEXT_COUNT];
    (void)printf("view %" PRIu64 "\n", table->view);
    for (int column = 0; column < TEXT_COUNT; column++) {
        widths[column] = width_of(table, column);
        print_text(hr_span_of(titles[column]), widths[column]);
    }
    (void)puts(table->has_partitions ? "incarnation   owns  stands by" : "incarnation");
    for (uint32_t i = 0; i < table->count; i++) {
        const struct row *row = &table->rows[i];
        for (int column = 0; column < TEXT_COUNT; column++) {
            print_text(row->texts[column], widths[column]);
        }
        (void)printf("%11" PRIu64, row->incarnation);
        if (table->has_partitions) {
            (void)printf("  %5" PRIu32 "  %9" PRIu32, row->owned, row->stood_by);
        }
        (void)putchar('\n');
    }
}

static enum hr_err print(const struct hr_ask *ask, struct hr_span result)
{
    static struct table table;
    if (ask->json) {
        enum hr_err err = hr_value_print_json(stdout, result);
        (void)fputc('\n', stdout);
        return err;
    }
    enum hr_err err = read_table(result, &table);
    if (err == HR_OK) {
        print_table(&table);
    }
    return err;
}

/* --- asking --- */

static int list_members(const struct hr_ask *ask, bool with_partitions)
{
    struct hr_client client;
    struct hr_span result;
    struct hr_params params = {.partitions = with_partitions};
    params.present = with_partitions ? HR_PARAM_BIT(HR_PARAM_PARTITIONS) : 0;
    int status = hr_ask_once(ask, &client, HR_METHOD_MEMBERS, &params, &result);
    if (status == HR_EXIT_DONE) {
        status = print(ask, result) == HR_OK ? HR_EXIT_DONE : hr_ask_garbage(&client);
        hr_client_close(&client);
    }
    return status;
}

static int forget_member(const struct hr_ask *ask, const char *name)
{
    const struct hr_params params = {.present = HR_PARAM_BIT(HR_PARAM_NAME), .name = hr_span_of(name)};
    const struct hr_ask_flag flag = {HR_METHOD_MEMBERS_FORGET, "forgotten", "forgotten", "it was not forgotten"};
    if (!hr_limit_name_is_valid(params.name)) { /* the same alphabet and length */
        return hr_cmd_usage(ask->command, "a node's name must be 1 to 64 of a-z, 0-9 and -, not \"%s\"", name);
    }
    return hr_ask_flag(ask, &params, &flag);
}

int hr_cmd_members(int argc, char **argv)
{
    enum { PARTITIONS = HR_ASK_OWN };
    static const struct option options[] = {{"partitions", no_argument, NULL, PARTITIONS}, HR_ASK_OPTIONS};
    struct hr_ask ask = HR_ASK_INIT(argv[0]);
    bool with_partitions = false;
    int option = 0, status = HR_EXIT_DONE;
    while ((option = hr_ask_option(&ask, argc, argv, options, help, &status)) != HR_OPTION_END) {
        if (option != PARTITIONS) {
            return status;
        }
        with_partitions = true;
    }
    if (optind == argc) {
        return list_members(&ask, with_partitions);
    }
    if (strcmp(argv[optind], "forget") != 0) {
        return hr_cmd_usage(ask.command, "members can only forget, not %s", argv[optind]);
    }
    if (argc - optind != 2 || with_partitions) {
        return hr_cmd_usage(ask.command, "members forget takes one NAME, and no --partitions");
    }
    return forget_member(&ask, argv[optind + 1]);
}
