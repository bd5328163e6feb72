#include "node/command/local_files.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/command/cmd.h"
#include "node/command/local_links.h"
#include "node/limits_yaml.h"
#include "node/secret.h"
#include "node/temp_folder.h"

#define FILE_PATH_BYTES (HR_CONFIG_PATH_BYTES_MAX + HR_CONFIG_NAME_BYTES_MAX + 8)

static int make_temporary(struct hr_local *local)
{
    bool is_made = hr_temp_folder("local", local->folder, sizeof(local->folder));
    return is_made ? HR_EXIT_DONE : hr_cmd_fail_errno("cannot make a folder", local->folder);
}

int hr_local_make_folder(struct hr_local *local, const char *folder)
{
    char absolute[PATH_MAX];
    if (folder == NULL) {
        return make_temporary(local);
    }
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return hr_cmd_fail_errno("cannot make the folder", folder);
    }
    if (realpath(folder, absolute) == NULL) {
        return hr_cmd_fail_errno("cannot use the folder", folder);
    }
    (void)snprintf(local->folder, sizeof(local->folder), "%s", absolute);
    return HR_EXIT_DONE;
}

/* A node's file, or for node_count the links. */
static int write_file(const struct hr_local *local, uint32_t node, const char *wan_delay)
{
    char path[FILE_PATH_BYTES];
    bool is_node = node < local->plan.node_count;
    (void)snprintf(path, sizeof(path), "%s/%s%s", local->folder, is_node ? local->plan.nodes[node].name : "links",
                   is_node ? ".yaml" : "");
    FILE *out = fopen(path, "we");
    if (out == NULL) {
        return hr_cmd_fail_errno("cannot write the file", path);
    }
    if (is_node) {
        hr_local_plan_write(&local->plan, node, out);
    } else {
        hr_local_links_write(&local->plan, wan_delay, out);
    }
    bool is_written = ferror(out) == 0;
    is_written = fclose(out) == 0 && is_written;
    return is_written ? HR_EXIT_DONE : hr_cmd_fail_errno("cannot write the file", path);
}

int hr_local_write_files(struct hr_local *local, const char *wan_delay)
{
    struct hr_problem problem;
    struct hr_hash_key key;
    if (!hr_secret_keep(local->folder, &key, &problem) || !hr_local_plan_find_ports(&local->plan, &problem)) {
        return hr_cmd_fail(&problem);
    }
    uint32_t count = local->plan.node_count + local->plan.has_links;
    int status = HR_EXIT_DONE;
    for (uint32_t i = 0; i < count && status == HR_EXIT_DONE; i++) {
        status = write_file(local, i, wan_delay);
    }
    return status;
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
    (void)stat;
    (void)kind;
    (void)at;
    return remove(path);
}

void hr_local_remove_folder(const struct hr_local *local)
{
    if (nftw(local->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        (void)hr_cmd_fail_errno("cannot remove the folder", local->folder);
    }
}

/* The other programs stand beside this one. */
static int find_program(const char *name, char ret_path[HR_CONFIG_PATH_BYTES_MAX + 1])
{
    ssize_t bytes = readlink("/proc/self/exe", ret_path, HR_CONFIG_PATH_BYTES_MAX - strlen(name));
    if (bytes <= 0) {
        return hr_cmd_fail_errno("cannot find this program's own folder", "/proc/self/exe");
    }
    ret_path[bytes] = '\0';
    char *slash = strrchr(ret_path, '/');
    memcpy(slash + 1, name, strlen(name) + 1);
    return access(ret_path, X_OK) == 0 ? HR_EXIT_DONE : hr_cmd_fail_errno("cannot run the program", ret_path);
}

int hr_local_find_programs(struct hr_local *local)
{
    int status = find_program("headroomd", local->headroomd);
    if (status == HR_EXIT_DONE && local->plan.has_links) {
        status = find_program("headroom-chaos", local->chaos);
    }
    return status;
}

int hr_local_take_limits(struct hr_local *local, const char *limits)
{
    struct hr_problem problem;
    char absolute[PATH_MAX];
    if (limits == NULL) {
        return HR_EXIT_DONE;
    }
    struct hr_limits_file *file = hr_limits_file_load(limits, &problem);
    if (file == NULL) {
        return hr_cmd_fail(&problem);
    }
    hr_limits_file_free(file);
    if (realpath(limits, absolute) == NULL) {
        return hr_cmd_fail_errno("cannot use the file", limits);
    }
    (void)snprintf(local->plan.limits, sizeof(local->plan.limits), "%s", absolute);
    return HR_EXIT_DONE;
}
