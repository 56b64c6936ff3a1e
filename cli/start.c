// SPDX-License-Identifier: Apache-2.0
/* Where the command starts. All that it does is in cli_main, which the golden tests call in processes of their own. */
#include "cli/cli.h"

int main(int argc, char **argv) { return cli_main(argc, argv); }
