#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chaos/run.h"
#include "node/command/cmd.h"

#define PATH_BYTES (HR_CONFIG_PATH_BYTES_MAX + HR_CONFIG_NAME_BYTES_MAX + 32)
#define FILLER "filler"

/* A node's data; or what fills the disk under it. */
static void print_path(const struct hr_run *run, uint32_t node, const char *file, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%s/%s%s%s", run->local.folder, run->local.plan.nodes[node].name,
                   file[0] == '\0' ? "" : "/", file);
}

/* us-1 means itself; us-owner each node of us. */
static bool may_be_filled(const struct hr_run *run, uint32_t node)
{
    const char *name = run->local.plan.nodes[node].name;
    size_t region_bytes = (size_t)(strrchr(name, '-') - name) + 1; /* every node's name has a dash */
    for (uint32_t i = 0; i < run->scenario.fault_count; i++) {
        const char *subject = run->scenario.faults[i].subject;
        bool is_meant = strcmp(subject, name) == 0 ||
                        (strncmp(subject, name, region_bytes) == 0 && strcmp(subject + region_bytes, "owner") == 0);
        if (run->scenario.faults[i].deed == HR_DEED_FILL && is_meant) {
            return true;
        }
    }
    return false;
}

static int mount_one(struct hr_run *run, uint32_t node)
{
    char path[PATH_BYTES], options[32];
    print_path(run, node, "", path);
    (void)snprintf(options, sizeof(options), "size=%dm", HR_RUN_DISK_MIB);
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return hr_cmd_fail_errno("cannot make the folder", path);
    }
    if (mount("tmpfs", path, "tmpfs", MS_NODEV | MS_NOSUID, options) != 0) {
        (void)hr_cmd_fail_errno("not run: a disk that can be filled is mounted, which only root may do", path);
        return HR_EXIT_UNREACHABLE;
    }
    run->has_disk[node] = true;
    return HR_EXIT_DONE;
}

int hr_run_disks_open(struct hr_run *run)
{
    int status = HR_EXIT_DONE;
    for (uint32_t i = 0; i < run->local.plan.node_count && status == HR_EXIT_DONE; i++) {
        status = may_be_filled(run, i) ? mount_one(run, i) : status;
    }
    return status;
}

void hr_run_disks_close(struct hr_run *run)
{
    for (uint32_t i = 0; i < run->local.plan.node_count; i++) {
        char path[PATH_BYTES];
        print_path(run, i, "", path);
        if (run->has_disk[i] && umount2(path, MNT_DETACH) != 0) {
            (void)hr_cmd_fail_errno("cannot unmount", path);
        }
        run->has_disk[i] = false;
    }
}

int hr_run_disk_fill(const struct hr_run *run, uint32_t node)
{
    static const char zeros[4096];
    char path[PATH_BYTES];
    print_path(run, node, FILLER, path);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) {
        return hr_cmd_fail_errno("cannot fill the disk", path);
    }
    while (write(file, zeros, sizeof(zeros)) > 0) {
    }
    bool is_full = errno == ENOSPC;
    int status = is_full ? HR_EXIT_DONE : hr_cmd_fail_errno("cannot fill the disk", path);
    (void)close(file); /* nothing in it matters */
    return status;
}

int hr_run_disk_free(const struct hr_run *run, uint32_t node)
{
    char path[PATH_BYTES];
    print_path(run, node, FILLER, path);
    return unlink(path) == 0 || errno == ENOENT ? HR_EXIT_DONE : hr_cmd_fail_errno("cannot free the disk", path);
}
