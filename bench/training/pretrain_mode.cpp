// SPDX-License-Identifier: Apache-2.0
#include "bench/training/pretrain_mode.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "bench/training/pretraining.h"
#include "runtime/private_file.h"

namespace tw::bench {

Result<int> run_pretrain(const Call& call) {
  if (call.flags.files.empty())
    return fail(ErrorCode::Usage, "[bench] --pretrain: name files of --corpus");
  TW_TRY(const std::vector<tuner::Recording> recordings, recordings_in(call.flags.files));
  TW_TRY(const std::vector<Judged> rows, judge_pretraining(recordings));
  TW_TRY(const cost_model::Pretrained model, pretrain(recordings));
  const std::string bytes = model.to_bytes();
  TW_RETURN_IF_ERROR(
      publish(call, {{"pretrain", as_json(rows)}, {"model", model.name()}, {"bytes", bytes.size()}},
              as_table(rows)));
  if (!call.flags.pretrained.empty())
    TW_RETURN_IF_ERROR(runtime::replace_file(call.flags.pretrained, bytes));
  return 0;
}

}  // namespace tw::bench
