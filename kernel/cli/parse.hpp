#pragma once
#include "kernel/cli/commands.hpp"

namespace tessera {

/// The functions that carry out the commands. One that is nullptr is not offered.
struct Commands {
  int (*train)(const TrainOptions&) = nullptr;
  int (*plan)(const PlanOptions&) = nullptr;
  int (*calibrate)(const CalibrateOptions&) = nullptr;
  int (*generate)(const GenerateOptions&) = nullptr;
  int (*eval)(const EvalOptions&) = nullptr;
  int (*checkpoint)(const CheckpointOptions&) = nullptr;
  int (*checkpoint_diff)(const CheckpointDiffOptions&) = nullptr;
  int (*checkpoint_export)(const CheckpointExportOptions&) = nullptr;
  int (*checkpoint_reshard)(const CheckpointReshardOptions&) = nullptr;
  int (*convert)(const ConvertOptions&) = nullptr;
  int (*data_show)(const DataShowOptions&) = nullptr;
  int (*data_verify)(const DataVerifyOptions&) = nullptr;
  int (*data_merge)(const DataMergeOptions&) = nullptr;
  int (*data_split)(const DataSplitOptions&) = nullptr;
  int (*data_build)(const DataBuildOptions&) = nullptr;
  int (*data_overlap)(const DataOverlapOptions&) = nullptr;
  int (*tokenizer_train)(const TokenizerTrainOptions&) = nullptr;
  int (*ranks)(const RanksOptions&) = nullptr;
  int (*schedule)(const ScheduleOptions&) = nullptr;
  int (*plugins_list)(const PluginsOptions&) = nullptr;
  int (*plugins_show)(const PluginsOptions&) = nullptr;
  int (*plugins_check)(const PluginsOptions&) = nullptr;
  int (*plugins_check_child)(const PluginsOptions&) = nullptr;
  int (*new_plugin)(const NewOptions&) = nullptr;
  int (*config_check)(const ConfigOptions&) = nullptr;
  int (*config_dump)(const ConfigOptions&) = nullptr;
  int (*config_diff)(const ConfigOptions&) = nullptr;
  int (*config_keys)(const KeysOptions&) = nullptr;
};

/// Reads the command line, runs the command and returns the exit code. What goes wrong is printed
/// to standard error.
int run_program(int argc, const char* const* argv, const Commands& commands);

}  // namespace tessera
