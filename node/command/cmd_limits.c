#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/command/ask.h"
#include "node/doc_yaml.h"
#include "node/limits_yaml.h"
#include "node/value_text.h"

static const char help[] =
    "usage: headroom limits [list | get NAME | put FILE | delete NAME] [OPTION...]\n"
    "\n"
    "Lists a node's limits as a limits file, or one of them; puts the limits of a file, one limit\n"
    "alone or a whole limits file, in force in the whole cluster; or deletes one from it. A limit\n"
    "that is put takes the place of the one of the same name. What is put or deleted holds across\n"
    "restarts.\n"
    "\n" HR_ASK_HELP "\n"
    "Exit status: 0 done, 2 wrong usage, an invalid limit, or no limit of that name, 3 the node did\n"
    "not answer.\n";

/* Printing */

static enum hr_err print_array(struct hr_unpacker *in)
{
    uint32_t count = 0;
    enum hr_err err = hr_unpack_array(in, &count);
    (void)puts(count > 0 ? "limits:" : "limits: []");
    for (uint32_t i = 0; err == HR_OK && i < count; i++) {
        struct hr_span item;
        err = hr_unpack_skip(in, &item);
        if (err == HR_OK) {
            err = hr_value_print_item(stdout, item);
        }
    }
    return err;
}

/* One limit, or an array of them, as a limits file that could be put again. */
static enum hr_err print_file(struct hr_span result)
{
    struct hr_unpacker in = {result};
    enum hr_kind kind = HR_KIND_NIL;
    enum hr_err err = hr_unpack_peek(&in, &kind);
    if (err != HR_OK || kind == HR_KIND_ARRAY) {
        return err == HR_OK ? print_array(&in) : err;
    }
    (void)puts("limits:");
    return hr_value_print_item(stdout, result);
}

static int print_result(const struct hr_ask *ask, const struct hr_client *client, struct hr_span result)
{
    enum hr_err err = HR_OK;
    if (ask->json) {
        err = hr_value_print_json(stdout, result);
        (void)fputc('\n', stdout);
    } else {
        err = print_file(result);
    }
    return err == HR_OK ? HR_EXIT_DONE : hr_ask_garbage(client);
}

static int list_limits(const struct hr_ask *ask)
{
    struct hr_client client;
    struct hr_span result;
    int status = hr_ask_once(ask, &client, HR_METHOD_LIMITS_LIST, NULL, &result);
    if (status == HR_EXIT_DONE) {
        status = print_result(ask, &client, result);
        hr_client_close(&client);
    }
    return status;
}

static int get_or_delete(const struct hr_ask *ask, enum hr_method method, const char *name)
{
    struct hr_client client;
    struct hr_span result;
    const struct hr_params params = {.present = HR_PARAM_BIT(HR_PARAM_NAME), .name = hr_span_of(name)};
    if (!hr_limit_name_is_valid(params.name)) {
        return hr_cmd_usage(ask->command, "a limit's name must be 1 to 64 of a-z, 0-9 and -, not \"%s\"", name);
    }
    int status = hr_ask_once(ask, &client, method, &params, &result);
    if (status != HR_EXIT_DONE) {
        return status;
    }
    if (method == HR_METHOD_LIMITS_GET || ask->json) {
        status = print_result(ask, &client, result);
    } else {
        (void)printf("deleted %s\n", name);
    }
    hr_client_close(&client);
    return status;
}

/* Putting: what was written becomes MessagePack as it stands, and the node judges it. */

static bool is_number(struct hr_span key, struct hr_span text)
{
    bool may_be = hr_span_equal(key, HR_SPAN("burst")) || hr_span_equal(key, HR_SPAN("slots"));
    for (size_t i = 0; i < text.bytes; i++) {
        may_be &= text.at[i] >= '0' && text.at[i] <= '9';
    }
    return may_be && text.bytes > 0 && text.bytes < 16; /* so it is below 2^53 */
}

static uint64_t number_of(struct hr_span digits)
{
    uint64_t number = 0;
    for (size_t i = 0; i < digits.bytes; i++) {
        number = number * 10 + (uint64_t)(digits.at[i] - '0');
    }
    return number;
}

static void pack_scalar(struct hr_packer *packer, const struct hr_doc *doc, hr_doc_node node, struct hr_span key)
{
    struct hr_span text = hr_doc_text(doc, node);
    if (hr_doc_is_null(doc, node)) {
        hr_pack_nil(packer);
    } else if (is_number(key, text)) {
        hr_pack_whole(packer, number_of(text));
    } else {
        hr_pack_text(packer, text);
    }
}

/* Goes no deeper than HR_DOC_DEPTH_MAX. key: what the value belongs to. */
static void pack_doc(struct hr_packer *packer, const struct hr_doc *doc,
                     hr_doc_node node, /* NOLINT(misc-no-recursion) */
                     struct hr_span key)
{
    switch (hr_doc_kind(doc, node)) {
    case HR_DOC_SCALAR:
        pack_scalar(packer, doc, node, key);
        return;
    case HR_DOC_LIST:
        hr_pack_array(packer, hr_doc_count(doc, node));
        for (hr_doc_node item = hr_doc_first(doc, node); item != 0; item = hr_doc_next(doc, item)) {
            pack_doc(packer, doc, item, HR_SPAN(""));
        }
        return;
    case HR_DOC_MAP:
        hr_pack_map(packer, hr_doc_count(doc, node));
        for (hr_doc_node name = hr_doc_first(doc, node); name != 0; name = hr_doc_next(doc, name)) {
            hr_pack_text(packer, hr_doc_text(doc, name));
            pack_doc(packer, doc, hr_doc_value(doc, name), hr_doc_text(doc, name));
        }
        return;
    }
}

static hr_doc_node find_value(const struct hr_doc *doc, hr_doc_node map, struct hr_span key)
{
    for (hr_doc_node name = hr_doc_first(doc, map); name != 0; name = hr_doc_next(doc, name)) {
        if (hr_span_equal(hr_doc_text(doc, name), key)) {
            return hr_doc_value(doc, name);
        }
    }
    return 0;
}

static int put_limit(const struct hr_ask *ask, struct hr_client *client, const struct hr_doc *doc, hr_doc_node limit)
{
    struct hr_packer measure = {0};
    struct hr_span result;
    pack_doc(&measure, doc, limit, HR_SPAN(""));
    char *bytes = malloc(measure.wanted);
    if (bytes == NULL) {
        const struct hr_problem problem = {"no memory", ""};
        return hr_cmd_fail(&problem);
    }
    struct hr_packer packer = {.at = bytes, .room = measure.wanted};
    pack_doc(&packer, doc, limit, HR_SPAN(""));
    const struct hr_params params = {.limit = hr_packer_bytes(&packer)};
    int status = hr_ask_call(client, HR_METHOD_LIMITS_PUT, &params, &result);
    free(bytes);
    if (status == HR_EXIT_DONE && ask->json) {
        return print_result(ask, client, result);
    }
    if (status == HR_EXIT_DONE) {
        (void)fputs("put ", stdout);
        hr_text_print(stdout, hr_doc_text(doc, find_value(doc, limit, HR_SPAN("name"))));
        (void)fputc('\n', stdout);
    }
    return status;
}

/* In the file's order; the first that the node refuses ends it. */
static int put_all(const struct hr_ask *ask, const struct hr_doc *doc, hr_doc_node limits)
{
    struct hr_client client;
    int status = hr_ask_open(ask, &client);
    if (status != HR_EXIT_DONE) {
        return status;
    }
    if (limits == 0) {
        status = put_limit(ask, &client, doc, hr_doc_root(doc));
    } else {
        for (hr_doc_node one = hr_doc_first(doc, limits); one != 0 && status == HR_EXIT_DONE;
             one = hr_doc_next(doc, one)) {
            status = put_limit(ask, &client, doc, one);
        }
    }
    hr_client_close(&client);
    return status;
}

/* A limits file is judged whole here first, so that a mistake at its end does not leave half of it in force. */
static int put_doc(const struct hr_ask *ask, const char *path, const struct hr_doc *doc)
{
    struct hr_problem problem;
    hr_doc_node limits =
        hr_doc_kind(doc, hr_doc_root(doc)) == HR_DOC_MAP ? find_value(doc, hr_doc_root(doc), HR_SPAN("limits")) : 0;
    if (limits != 0) {
        struct hr_limits_file *file = hr_limits_file_load(path, &problem);
        if (file == NULL) {
            return hr_cmd_fail(&problem);
        }
        hr_limits_file_free(file);
    } else if (hr_doc_kind(doc, hr_doc_root(doc)) != HR_DOC_MAP ||
               find_value(doc, hr_doc_root(doc), HR_SPAN("name")) == 0) {
        (void)hr_doc_fault(doc, hr_doc_root(doc), &problem, "neither a limit with a name nor a limits file");
        return hr_cmd_fail(&problem);
    }
    return put_all(ask, doc, limits);
}

static int put_file(const struct hr_ask *ask, const char *path)
{
    struct hr_problem problem;
    struct hr_doc *doc = hr_doc_load(path, &problem);
    if (doc == NULL) {
        return hr_cmd_fail(&problem);
    }
    int status = put_doc(ask, path, doc);
    hr_doc_free(doc);
    return status;
}

static int run(const struct hr_ask *ask, int argc, char **argv)
{
    const char *what = optind < argc ? argv[optind] : "list";
    int more = optind < argc ? argc - optind - 1 : 0;
    if (strcmp(what, "list") == 0) {
        return more == 0 ? list_limits(ask) : hr_cmd_usage(ask->command, "limits list takes no argument");
    }
    bool is_get = strcmp(what, "get") == 0, is_put = strcmp(what, "put") == 0;
    if (!is_get && !is_put && strcmp(what, "delete") != 0) {
        return hr_cmd_usage(ask->command, "limits can list, get, put and delete, not %s", what);
    }
    if (more != 1) {
        return hr_cmd_usage(ask->command, "limits %s takes one %s", what, is_put ? "FILE" : "NAME");
    }
    if (is_put) {
        return put_file(ask, argv[optind + 1]);
    }
    return get_or_delete(ask, is_get ? HR_METHOD_LIMITS_GET : HR_METHOD_LIMITS_DELETE, argv[optind + 1]);
}

int hr_cmd_limits(int argc, char **argv)
{
    static const struct option options[] = {HR_ASK_OPTIONS};
    struct hr_ask ask = HR_ASK_INIT(argv[0]);
    int status = HR_EXIT_DONE;
    if (hr_ask_option(&ask, argc, argv, options, help, &status) != HR_OPTION_END) {
        return status;
    }
    return run(&ask, argc, argv);
}
