#include "node/command/load_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/pairs.h"
#include "rpc/told.h"
#include "rpc/unpack.h"

_Static_assert(HR_LOAD_NODES_MAX < UINT8_MAX, "an owner is a byte");

/* --- finding --- */

/* The first connection looks a name up and finds the one of its addresses that answers. */
static int reach(const struct hr_ask *ask, struct hr_load_node *node)
{
    struct hr_client client;
    socklen_t bytes = sizeof(node->at);
    int status = hr_ask_open(ask, &client);
    if (status != HR_EXIT_DONE) {
        return status;
    }
    memcpy(node->where, client.where, sizeof(client.where));
    (void)getpeername(client.fd, (struct sockaddr *)&node->at, &bytes); /* where not, connecting will say so */
    hr_client_close(&client);
    return HR_EXIT_DONE;
}

int hr_load_nodes_one(const struct hr_ask *ask, struct hr_load_nodes *ret_nodes)
{
    ret_nodes->count = 1;
    ret_nodes->all[0].name[0] = '\0';
    return reach(ask, &ret_nodes->all[0]);
}

/* The text under a key of a map; empty: there is none. */
static struct hr_span find_text(struct hr_span map, struct hr_span key)
{
    struct hr_span text;
    return hr_unpack_word(map, key, &text) == HR_OK ? text : HR_SPAN("");
}

static void copy(struct hr_span text, size_t room, char *ret_text)
{
    size_t bytes = text.bytes < room ? text.bytes : room - 1;
    memcpy(ret_text, text.at, bytes);
    ret_text[bytes] = '\0';
}

static void add_member(struct hr_load_nodes *nodes, struct hr_span member, struct hr_span region)
{
    bool is_wanted = hr_span_equal(find_text(member, HR_SPAN("region")), region) &&
                     hr_span_equal(find_text(member, HR_SPAN("state")), HR_SPAN("alive"));
    if (!is_wanted || nodes->count == HR_LOAD_NODES_MAX) {
        return;
    }
    struct hr_load_node *node = &nodes->all[nodes->count++];
    copy(find_text(member, HR_SPAN("name")), sizeof(node->name), node->name);
    copy(find_text(member, HR_SPAN("rpc")), sizeof(node->where), node->where);
}

static void read_members(struct hr_load_nodes *nodes, struct hr_span answer, struct hr_span region)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    struct hr_span member;
    uint32_t count = 0;
    enum hr_err err = hr_pairs_begin(&pairs, answer);
    while (err == HR_OK && (err = hr_pairs_next(&pairs, &pair)) == HR_OK) {
        struct hr_unpacker in = {pair.value};
        if (!hr_span_equal(pair.key, HR_SPAN("members")) || hr_unpack_array(&in, &count) != HR_OK) {
            continue;
        }
        for (uint32_t i = 0; i < count && hr_unpack_skip(&in, &member) == HR_OK; i++) {
            add_member(nodes, member, region);
        }
    }
}

/* Asks which region it is, and who is in it; there must be somebody. */
static int list(const struct hr_ask *ask, struct hr_load_nodes *nodes)
{
    struct hr_client client;
    struct hr_span answer;
    char region[HR_LIMIT_NAME_BYTES_MAX + 1];
    int status = hr_ask_open(ask, &client);
    if (status != HR_EXIT_DONE) {
        return status;
    }
    status = hr_ask_call(&client, HR_METHOD_STATUS, NULL, &answer);
    if (status == HR_EXIT_DONE) {
        copy(find_text(answer, HR_SPAN("region")), sizeof(region), region);
        status = hr_ask_call(&client, HR_METHOD_MEMBERS, NULL, &answer);
    }
    if (status == HR_EXIT_DONE) {
        read_members(nodes, answer, hr_span_of(region));
    }
    if (status == HR_EXIT_DONE && nodes->count == 0) {
        struct hr_problem problem;
        hr_problem_what(&problem, "the node knows of no node of its region that is alive");
        hr_problem_where(&problem, "%s", client.where);
        (void)hr_cmd_fail(&problem);
        status = HR_EXIT_UNREACHABLE;
    }
    hr_client_close(&client);
    return status;
}

int hr_load_nodes_region(const struct hr_ask *ask, struct hr_load_nodes *ret_nodes)
{
    ret_nodes->count = 0;
    int status = list(ask, ret_nodes);
    for (uint32_t i = 0; status == HR_EXIT_DONE && i < ret_nodes->count; i++) {
        struct hr_ask other = *ask;
        char where[HR_ADDRESS_TEXT_BYTES];
        memcpy(where, ret_nodes->all[i].where, sizeof(where));
        other.node = where;
        status = reach(&other, &ret_nodes->all[i]);
    }
    return status;
}

uint32_t hr_load_nodes_find(const struct hr_load_nodes *nodes, struct hr_span name)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        if (hr_span_equal(hr_span_of(nodes->all[i].name), name)) {
            return i;
        }
    }
    return HR_LOAD_NO_NODE;
}

/* --- owners --- */

enum hr_err hr_load_owners_init(struct hr_load_owners *owners, uint64_t key_count)
{
    owners->key_count = key_count;
    owners->of = calloc((size_t)key_count, 1);
    return owners->of == NULL ? HR_E_MEMORY : HR_OK;
}

void hr_load_owners_free(struct hr_load_owners *owners)
{
    free(owners->of);
    owners->of = NULL;
}
