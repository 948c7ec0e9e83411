#include "tessera/plugin.hpp"

#include "dualpipe_v.hpp"
#include "gpipe.hpp"
#include "interleaved.hpp"
#include "one_forward_one_backward.hpp"
#include "zb_h1.hpp"
#include "zbv.hpp"

TESSERA_PLUGIN(pipeline, "0.1.0", "Pipeline schedules") {
  using namespace tessera;
  registrar.add<PipelineSchedule, GPipe>(
      "gpipe",
      "All forwards, then all backwards (Huang et al. 2018): every microbatch is live at once.");
  registrar.add<PipelineSchedule, OneForwardOneBackward>(
      "1f1b",
      "One forward, one backward (Narayanan et al. 2019): rank r of p keeps the "
      "activations of p - r microbatches, with overlap of more.");
  registrar.add<PipelineSchedule, OneForwardOneBackward>(
      "auto", "1f1b on several pipeline ranks, sequential on one: what needs the least memory.");
  registrar.add<PipelineSchedule, Interleaved>(
      "interleaved_1f1b",
      "1F1B over several chunks a rank (Narayanan et al. 2021): idle time divided by the chunks.");
  registrar.add<PipelineSchedule, ZbH1>("zb_h1",
                                        "1F1B with weight gradients in its gaps (Qi et al. 2023): "
                                        "it idles a third as long, and each rank keeps as many "
                                        "microbatches as 1F1B's first.");
  registrar.add<PipelineSchedule, Zbv>("zbv",
                                       "Two chunks a rank, down and up again (Qi et al. 2023, "
                                       "2024): idle only while filling, memory "
                                       "of 1F1B's first rank on each.");
  registrar.add<PipelineSchedule, DualPipeV>("dualpipe_v",
                                             "DualPipe cut in half (DeepSeek 2025): two chunks a "
                                             "rank, forward and backward in pairs whose "
                                             "phases may overlap.");
}
