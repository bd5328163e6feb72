#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "chaos/cmd_chaos.h"
#include "chaos/proxy_uv.h"
#include "node/command/local_links.h"

#define LOOK_MS 50            /* for a new file */
#define CONNECTIONS_MAX 10000 /* of one relay */

static const char help[] =
    "usage: headroom-chaos links FILE\n"
    "\n"
    "Stands between the regions of a cluster on loopback, as FILE says, until it is told to stop; goes by\n"
    "FILE anew whenever that is replaced. `headroom local --wan-delay` writes such a file and starts this.\n"
    "An entry a line:\n"
    "\n"
    "  delay 80ms          between regions, each way\n"
    "  loss 20%            of what goes between regions: late by a retransmission\n"
    "  region NAME ADDRESS who connects from there is of the region\n"
    "  relay NAME FROM TO  of a node of the region: listens at FROM, leads to TO (HOST:PORT, IPv4)\n"
    "  cut NAME            nothing passes between the region and the others\n"
    "  mute NAME           nothing that the region sends reaches the others\n"
    "  deaf NAME           nothing that the others send reaches the region\n"
    "\n"
    "  --help     print this\n"
    "  --version  print the version\n"
    "\n"
    "Exit status: 2 wrong usage, an invalid file, or an address that cannot be listened at.\n";

struct program {
    const char *path;
    uv_loop_t loop;
    uv_fs_poll_t look;
    struct hr_local_links links;
    struct hr_proxy *proxies[HR_LOCAL_NODES_MAX]; /* by the relays' order */
};

/* Of what goes from one region to another. */
static struct hr_proxy_fault fault_between(const struct hr_local_links *links, uint32_t from, uint32_t to)
{
    enum hr_local_cut sender = links->regions[from].cut, receiver = links->regions[to].cut;
    if (from == to) {
        return (struct hr_proxy_fault){0};
    }
    return (struct hr_proxy_fault){.delay_ns = links->delay_ns,
                                   .loss_ppm = links->loss_ppm,
                                   .is_cut = sender == HR_LOCAL_CUT || sender == HR_LOCAL_MUTE ||
                                             receiver == HR_LOCAL_CUT || receiver == HR_LOCAL_DEAF};
}

/* HR_E_FULL cannot be: there are fewer regions than sources that a proxy takes. */
static enum hr_err set_faults(struct program *program)
{
    const struct hr_local_links *links = &program->links;
    enum hr_err err = HR_OK;
    for (uint32_t i = 0; i < links->relay_count; i++) {
        uint32_t own = links->relays[i].region;
        for (uint32_t other = 0; other < links->region_count && err == HR_OK; other++) {
            struct in_addr from = links->regions[other].at;
            err = hr_proxy_set_from(program->proxies[i], from, HR_PROXY_OUT, fault_between(links, other, own));
            err = err != HR_OK
                      ? err
                      : hr_proxy_set_from(program->proxies[i], from, HR_PROXY_BACK, fault_between(links, own, other));
        }
    }
    return err;
}

/* Only what goes on between the same regions and relays may change. */
static bool is_of_same_cluster(const struct hr_local_links *a, const struct hr_local_links *b)
{
    bool is_same = a->region_count == b->region_count && a->relay_count == b->relay_count;
    for (uint32_t i = 0; is_same && i < a->region_count; i++) {
        is_same =
            strcmp(a->regions[i].name, b->regions[i].name) == 0 && a->regions[i].at.s_addr == b->regions[i].at.s_addr;
    }
    for (uint32_t i = 0; is_same && i < a->relay_count; i++) {
        is_same = a->relays[i].from.sin_port == b->relays[i].from.sin_port &&
                  a->relays[i].to.sin_port == b->relays[i].to.sin_port;
    }
    return is_same;
}

/* A file that is wrong, or not there, is told of, and what was before it goes on. */
static void on_look(uv_fs_poll_t *look, int status, const uv_stat_t *before, const uv_stat_t *now)
{
    struct program *program = look->data;
    struct hr_local_links links;
    struct hr_problem problem;
    (void)status;
    (void)before;
    (void)now;
    bool is_read = hr_local_links_read(program->path, &links, &problem);
    if (is_read && !is_of_same_cluster(&links, &program->links)) {
        hr_problem_what(&problem, "the regions and relays cannot change while this runs");
        hr_problem_where(&problem, "%s", program->path);
        is_read = false;
    }
    if (!is_read) {
        (void)hr_cmd_fail(&problem);
        return;
    }
    program->links = links;
    if (set_faults(program) != HR_OK) {
        abort();
    }
}

static int open_proxies(struct program *program)
{
    for (uint32_t i = 0; i < program->links.relay_count; i++) {
        const struct hr_local_relay *relay = &program->links.relays[i];
        const struct hr_proxy_config config = {.loop = &program->loop,
                                               .listen = relay->from,
                                               .to = relay->to,
                                               .connections_max = CONNECTIONS_MAX,
                                               .seed = i + 1};
        enum hr_err err = hr_proxy_open(&config, &program->proxies[i]);
        if (err != HR_OK) {
            struct hr_problem problem;
            hr_problem_what(&problem, "cannot open relay %u: %s", i + 1, hr_err_text(err));
            hr_problem_where(&problem, "%s", program->path);
            return hr_cmd_fail(&problem);
        }
    }
    return HR_EXIT_DONE;
}

static int fail_uv(const char *path, int status)
{
    struct hr_problem problem;
    hr_problem_what(&problem, "cannot watch the file: %s", uv_strerror(status));
    hr_problem_where(&problem, "%s", path);
    return hr_cmd_fail(&problem);
}

/* Returns only where it cannot start: a signal ends it, and there is nothing to be saved. */
static int serve(const char *path)
{
    static struct program program;
    struct hr_problem problem;
    program.path = path;
    if (!hr_local_links_read(path, &program.links, &problem)) {
        return hr_cmd_fail(&problem);
    }
    int status = uv_loop_init(&program.loop);
    if (status != 0) {
        return fail_uv(path, status);
    }
    int exit = open_proxies(&program);
    if (exit != HR_EXIT_DONE) {
        return exit;
    }
    if (set_faults(&program) != HR_OK) {
        abort();
    }
    (void)uv_fs_poll_init(&program.loop, &program.look); /* takes nothing from the system yet */
    program.look.data = &program;
    status = uv_fs_poll_start(&program.look, on_look, path, LOOK_MS);
    if (status != 0) {
        return fail_uv(path, status);
    }
    return uv_run(&program.loop, UV_RUN_DEFAULT);
}

int hr_chaos_links(int argc, char **argv)
{
    static const struct option table[] = {HR_OPTIONS_COMMON};
    int status = HR_EXIT_DONE;
    if (hr_cmd_option(argc, argv, table, help, &status) == HR_OPTION_EXIT) {
        return status;
    }
    if (argc - optind != 1) {
        return hr_cmd_usage(argv[0], "links takes one FILE");
    }
    return serve(argv[optind]);
}
