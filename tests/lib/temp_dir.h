/* Temporary directories for stores on disk, in $TMPDIR, or where the system keeps such. */
#ifndef HR_TESTS_LIB_TEMP_DIR_H
#define HR_TESTS_LIB_TEMP_DIR_H

#define TEMP_PATH_BYTES 256

struct temp_dir {
    char path[TEMP_PATH_BYTES];      /* there, and empty */
    char store[TEMP_PATH_BYTES + 8]; /* path/store: not there */
    char data[TEMP_PATH_BYTES + 24]; /* the store's one data file */
};

/* Fails the test where it cannot. */
void temp_dir_make(struct temp_dir *ret_dir);

/* Removes it, and any store in it. */
void temp_dir_remove(const struct temp_dir *dir);

/* Removes the store and leaves the directory. */
void temp_dir_clear(const struct temp_dir *dir);

#endif
