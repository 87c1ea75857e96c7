// SPDX-License-Identifier: Apache-2.0
// The worker program as tests start it: `tuning_worker build <directory>` or `tuning_worker run`.
#include "tuner/tune.h"

int main(int argc, char** argv) { return tw::tuner::worker_main({argv + 1, argv + argc}); }
