/* Two ranks that exchange 64 KiB a hundred times, and check what came. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH = 65536, ROUNDS = 100 };

int main(int argc, char **argv)
{
    static unsigned char mine[LENGTH], theirs[LENGTH];
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < ROUNDS; round++) {
        memset(mine, 2 * round + rank, LENGTH);
        MPI_Sendrecv(mine, LENGTH, MPI_BYTE, 1 - rank, 0, theirs, LENGTH, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        memset(mine, 2 * round + 1 - rank, LENGTH);
        if (memcmp(mine, theirs, LENGTH) != 0) {
            fprintf(stderr, "round %d: other bytes came\n", round);
            MPI_Abort(MPI_COMM_WORLD, 9);
        }
    }
    printf("rank %d has all\n", rank);
    MPI_Finalize();
    return 0;
}
