/* A token round all ranks, a sum over all, and a message of each rank to itself: what comes back is checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void expect(int holds, int rank, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "rank %d: %s is wrong\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

static int pass(int value, int to, int from)
{
    int got = -1;
    MPI_Sendrecv(&value, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return got;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    long sum = 0;
    char host[256] = "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    gethostname(host, sizeof host - 1);

    expect(pass(rank, (rank + 1) % ranks, (rank + ranks - 1) % ranks) == (rank + ranks - 1) % ranks, rank, "the ring");
    expect(pass(rank, rank, rank) == rank, rank, "the message to itself");
    long own = rank + 1;
    MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    expect(sum == (long)ranks * (ranks + 1) / 2, rank, "the sum");

    const char *job = getenv("WIRELANE_JOB");
    printf("rank %d of %d on %s, job %s\n", rank, ranks, host, job && *job ? "known" : "unknown");
    fflush(stdout);
    if (argc > 2 && strcmp(argv[1], "--fail") == 0 && atoi(argv[2]) == rank)
        exit(7);
    MPI_Finalize();
    return 0;
}
