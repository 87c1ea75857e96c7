// SPDX-License-Identifier: Apache-2.0
#include "bench/training/pretrain_mode.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/training/pretraining.h"

namespace tw::bench {
namespace {

Status write_model(const std::string& path, const cost_model::Pretrained& model) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << model.to_bytes();
  file.close();
  if (file) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[bench] --pretrained '{}' cannot be written", path));
}

}  // namespace

Result<int> run_pretrain(const Call& call) {
  if (call.flags.files.empty())
    return fail(ErrorCode::Usage, "[bench] --pretrain: name files of --corpus");
  TW_TRY(const std::vector<tuner::Recording> recordings, recordings_in(call.flags.files));
  TW_TRY(const std::vector<Judged> rows, judge_pretraining(recordings));
  TW_TRY(const cost_model::Pretrained model, pretrain(recordings));
  if (!call.flags.pretrained.empty()) TW_RETURN_IF_ERROR(write_model(call.flags.pretrained, model));
  TW_RETURN_IF_ERROR(publish(
      call,
      {{"pretrain", as_json(rows)}, {"model", model.name()}, {"bytes", model.to_bytes().size()}},
      as_table(rows)));
  return 0;
}

}  // namespace tw::bench
