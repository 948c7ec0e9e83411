#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/config/resolve.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/schedule/draw.hpp"
#include "kernel/schedule/layer_order.hpp"
#include "kernel/schedule/verify.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"

namespace tessera {
namespace {

// Makes it as a run would, from a [schedule] table of the command line; it needs no other table.
std::shared_ptr<PipelineSchedule> make(const PluginHost& host, const ScheduleOptions& options) {
  const ComponentInfo* info = host.find("schedule", options.type);
  if (info == nullptr) fail_unknown_component(host, "schedule/" + options.type);
  std::string table = fmt::format("[schedule]\ntype = \"{}\"\n", options.type);
  const bool has_chunks =
      std::ranges::find(info->fields, "chunks", &FieldSpec::name) != info->fields.end();
  if (options.chunks > 0 && has_chunks) table += fmt::format("chunks = {}\n", options.chunks);
  std::vector<std::string> sets;
  for (const std::string& set : options.sets) sets.push_back("schedule." + set);
  const Config config = Config::parse(table, "command line", sets);
  std::vector<Problem> problems = check(config, host).problems;
  std::erase_if(problems, [](const Problem& problem) {
    return problem.text.find("[schedule]") == std::string::npos;
  });
  if (!problems.empty()) throw ConfigError(report(problems));

  ScheduleArguments arguments{options.ranks};
  auto schedule =
      host.make<PipelineSchedule>(options.type, *config.node("schedule"), {}, arguments);
  if (options.chunks > 0 && options.chunks != schedule->chunks()) {
    fail_config("schedule \"{}\" has {} {} a rank, not {}",
                options.type,
                schedule->chunks(),
                schedule->chunks() == 1 ? "chunk" : "chunks",
                options.chunks);
  }
  return schedule;
}

// Forward of chunk c is c + 1, backward or its input half -(c + 1), its weight half 0.5 less.
Json number_of(const Action& action) {
  const int chunk = action.chunk + 1;
  if (action.kind == Action::F) return chunk;
  if (action.kind == Action::Bw) return -chunk - 0.5;
  return -chunk;
}

Json whole_or_half(double number) {
  return number == std::floor(number) ? Json(static_cast<i64>(number)) : Json(number);
}

// A number for each chunk; none where the user gave none.
std::vector<int> layers_of(const ScheduleOptions& options, int chunks) {
  const auto given = static_cast<int>(options.layers.size());
  if (given == 1) return std::vector<int>(static_cast<std::size_t>(chunks), options.layers[0]);
  if (given != 0 && given != chunks) {
    fail_config("--layers has {} numbers, and a rank has {} chunk{}: give one for each, or one",
                given,
                chunks,
                chunks == 1 ? "" : "s");
  }
  return options.layers;
}

struct RankReport {
  std::vector<Action> order;
  std::vector<double> by_layer;
  int warmup = 0;
  std::vector<int> live;
};

RankReport report_of(const Pipeline& pipeline, int rank, const std::vector<int>& layers) {
  PipelineShape shape = pipeline.orders.shape;
  shape.rank = rank;
  RankReport out;
  if (!layers.empty()) {
    for (const LayerAction& action :
         layer_order(pipeline.orders, static_cast<std::size_t>(rank), layers)) {
      out.by_layer.push_back(layer_number(action, layers));
    }
  }
  out.order = pipeline.orders.by_rank[static_cast<std::size_t>(rank)];
  out.warmup = pipeline.schedule.warmup(shape);
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    out.live.push_back(pipeline.schedule.live(shape, chunk));
  }
  return out;
}

void print_json(const std::vector<RankReport>& ranks, double bubble) {
  Json list = Json::array();
  int rank = 0;
  for (const RankReport& report : ranks) {
    Json entry;
    entry.add("rank", rank++).add("order", Json::array(report.order, number_of));
    if (!report.by_layer.empty()) {
      entry.add("layer_order", Json::array(report.by_layer, whole_or_half));
    }
    list.push(entry.add("warmup", report.warmup).add("live", Json::array(report.live)));
  }
  show_exact(Json().add("ranks", list).add("bubble", bubble).text() + "\n");
}

std::string title_of(const ScheduleOptions& options, const PipelineShape& shape) {
  const auto count = [](int n, std::string_view what, std::string_view plural) {
    return fmt::format("{} {}", n, n == 1 ? what : plural);
  };
  return fmt::format("{}: {}, {} a rank, {}{}",
                     options.type,
                     count(shape.ranks, "rank", "ranks"),
                     count(shape.chunks, "chunk", "chunks"),
                     count(shape.microbatches, "microbatch", "microbatches"),
                     shape.training ? "" : ", forward only");
}

}  // namespace

int run_schedule(const ScheduleOptions& options) {
  const auto host = open_plugins({options.path.begin(), options.path.end()});
  const auto schedule = make(*host, options);
  const auto in = [&](bool training) {
    return shape_of(*schedule, options.ranks, options.microbatches, training);
  };
  const PipelineShape shape = in(!options.forward_only);
  const Pipeline pipeline = verify(*schedule, shape);
  if (shape.training) verify(*schedule, in(false));  // validation is a forward-only pass

  const Timeline timeline = play(pipeline.orders);
  std::vector<RankReport> ranks;
  ranks.reserve(static_cast<std::size_t>(shape.ranks));
  const std::vector<int> layers = layers_of(options, shape.chunks);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    ranks.push_back(report_of(pipeline, rank, layers));
  }
  const std::string title = title_of(options, shape);
  if (!options.svg.empty()) {
    write_output_file(options.svg, draw_svg(timeline, shape.chunks, title, kUnitTimes));
  }
  if (options.json) {
    print_json(ranks, timeline.bubble());
    return 0;
  }
  show("{}\n\n{}\n", title, draw(timeline, shape.chunks));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    show("rank {:<2} warm-up {}, live {}\n",
         rank,
         ranks[rank].warmup,
         fmt::join(ranks[rank].live, " + "));
  }
  for (std::size_t rank = 0; rank < ranks.size() && !layers.empty(); ++rank) {
    show("rank {:<2} by layer {}\n", rank, fmt::join(ranks[rank].by_layer, " "));
  }
  show("verified; {}\n", bubble_text(timeline, kUnitTimes));
  return 0;
}

}  // namespace tessera
