#include "report_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "tessera/io/size_text.hpp"
#include "tessera/io/svg.hpp"
#include "tessera/run_speed.hpp"

namespace tessera {
namespace {

constexpr double kWide = 960, kNarrow = 474;
constexpr std::size_t kMostMetrics = 12;

constexpr std::string_view kHead = R"(<style>
  body { font: 15px/1.45 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: #1f2328;
         max-width: 960px; margin: 24px auto; padding: 0 16px }
  h1 { font-size: 24px; margin: 0 } h2 { font-size: 18px; margin: 32px 0 8px }
  table { border-collapse: collapse } td { padding: 2px 20px 2px 0; vertical-align: top }
  td:first-child { color: #57606a; white-space: nowrap }
  pre { background: #f6f8fa; padding: 12px; overflow-x: auto; font-size: 12.5px }
  .sample { white-space: pre-wrap }
  .state { font-weight: 600 } .failed { color: #cf222e } .scroll { overflow-x: auto }
  .charts svg { max-width: 100%; height: auto }
</style>
)";

std::string count_text(i64 value) {
  const std::string digits = fmt::format("{}", value);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string duration_text(double seconds) {
  const auto s = static_cast<i64>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text.data();
}

std::string_view state_text(const ReportPage& page) {
  constexpr std::string_view kStates[] = {"running", "done", "stopped", "failed"};
  return kStates[page.state];
}

Chart loss_chart(const ReportPage& page) {
  Chart loss = tessera::loss_chart("Loss", page.loss, page.validation);
  loss.width = kWide;
  loss.height = 440;
  return loss;
}

std::string facts(const ReportPage& page) {
  std::string rows;
  const auto row = [&rows](std::string_view name, std::string_view text) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", name, svg_text(text));
  };
  const RunStart& run = page.run;
  row("steps", fmt::format("{} of {}", count_text(page.step), count_text(run.last_step)));
  if (page.skipped > 0) {
    row("skipped",
        fmt::format("{} step{} (non-finite gradients or bad loss)",
                    count_text(page.skipped),
                    page.skipped == 1 ? "" : "s"));
  }
  if (!page.loss.empty()) {
    const double value = curve_of(loss_chart(page)).back().value;
    row("loss", fmt::format("{:.4f}, smoothed as in the picture", value));
  }
  if (!page.validation.empty()) {
    row("validation loss", fmt::format("{:.4f}", page.validation.last()));
  }
  const i64 steps = page.step - run.first_step + 1;
  if (page.seconds > 0 && steps > 0) {
    const double each = page.seconds / static_cast<double>(steps);
    const double tokens = static_cast<double>(run.tokens_per_step) / each;
    const std::string work = work_text(run, tokens);
    row("speed",
        fmt::format("{} tokens/s{}{}",
                    count_text(static_cast<i64>(tokens)),
                    work.empty() ? "" : ", ",
                    work));
    row("time in steps", duration_text(page.seconds));
    if (page.state == ReportPage::running) {
      row("time left", duration_text(each * static_cast<double>(run.last_step - page.step)));
    }
  }
  row("layout", run.layout);
  row("device", run.device);
  row("parameters", count_text(run.parameters));
  row("tokens a step", count_text(run.tokens_per_step));
  row("folder", run.out);
  if (!run.resumed_from.empty()) row("resumed from", run.resumed_from);
  row("newest checkpoint", page.newest_checkpoint.empty() ? "none yet" : page.newest_checkpoint);
  row("this page", now_text());
  return "<table>\n" + rows + "</table>\n";
}

std::string chart_of(std::string_view title,
                     const History& history,
                     const char* number,
                     bool smooth = true) {
  if (history.empty()) return "";
  Chart chart;
  chart.title = title;
  chart.unit = "";
  chart.measured_name = "now";
  chart.number = number;
  chart.measured = history.points();
  chart.smooth = smooth;
  chart.width = kNarrow;
  chart.height = 300;
  return draw_chart(chart);
}

std::string charts(const ReportPage& page) {
  if (page.loss.empty() && page.validation.empty()) return "<p>No step is done yet.</p>\n";
  std::string out = "<div class=\"charts\">\n" + draw_chart(loss_chart(page));
  out += chart_of("Gradient norm", page.norm, "{:.4g}");
  out += chart_of("Learning rate", page.rate, "{:.3g}", false);
  out += chart_of("Tokens per second", page.speed, "{:.0f}");
  out += chart_of("Loss scale, a power of two", page.loss_scale, "2^{:.4g}", false);
  out += chart_of("Skipped steps so far", page.skips, "{:.0f}", false);
  std::size_t shown = 0;
  for (const auto& [name, history] : page.metrics) {
    if (shown++ < kMostMetrics) out += chart_of(name, history, "{:.4g}");
  }
  return out + "</div>\n";
}

std::string memory(const ReportPage& page) {
  const MemoryStats& stats = page.memory.stats;
  struct Bar {
    std::string name;
    i64 bytes;
    std::string_view colour;
  };
  std::vector<Bar> bars;
  for (int c = 0; c < kCategories; ++c) {
    const i64 peak = stats.peak[static_cast<std::size_t>(c)];
    if (peak > 0) {
      bars.push_back({std::string(category_name(static_cast<Category>(c))), peak, "#79a8e0"});
    }
  }
  if (bars.empty()) return "";
  bars.push_back({"all at one moment", stats.total_peak, "#0969da"});
  bars.push_back({"reserved", stats.reserved, "#8c959f"});
  i64 most = 1;
  for (const Bar& bar : bars) most = std::max(most, bar.bytes);
  constexpr double kRow = 26, kLeft = 150, kNumbers = 90;
  const SvgScale x{0, static_cast<double>(most), kLeft, kWide - kNumbers};
  const std::string rank =
      page.run.world > 1
          ? fmt::format("rank {}, the fullest of {}", page.memory.rank, page.run.world)
          : "the run";
  std::string out =
      fmt::format("<h2>Memory of {}, at its peak</h2>\n<div class=\"charts\">\n", rank) +
      svg_begin(kWide, kRow * static_cast<double>(bars.size()) + 8);
  double y = 4;
  for (const Bar& bar : bars) {
    const double end = x(static_cast<double>(bar.bytes));
    out += svg_label(kLeft - 10, y + 16, bar.name, SvgAnchor::end);
    out += svg_box(kLeft, y, std::max(end - kLeft, 1.0), kRow - 6, bar.colour);
    out += svg_label(end + 8, y + 16, size_text(static_cast<double>(bar.bytes)));
    y += kRow;
  }
  return out + "</svg>\n</div>\n";
}

std::string samples(const ReportPage& page) {
  std::string out;
  for (const SampleText& sample : page.samples) {
    if (out.empty()) out = "<h2>What the model writes</h2>\n";
    const bool begins = sample.text.starts_with(sample.prompt);
    const std::size_t prompt = begins ? sample.prompt.size() : 0;
    out += fmt::format("<p>step {}</p>\n<pre class=\"sample\"><b>{}</b>{}</pre>\n",
                       count_text(sample.step),
                       svg_text(sample.text.substr(0, prompt)),
                       svg_text(sample.text.substr(prompt)));
  }
  return out;
}

}  // namespace

void add_scaled_step(ReportPage& page, i64 step, double loss_scale, double skipped_steps) {
  page.loss_scale.add(step, std::log2(loss_scale));
  page.skips.add(step, skipped_steps);
}

std::string html_of(const ReportPage& page) {
  constexpr std::string_view kRefresh = "<meta http-equiv=\"refresh\" content=\"15\">\n";
  const std::string name = svg_text(page.run.name);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{}"
      "<title>{}: {}</title>\n{}</head>\n<body>\n<h1>{}</h1>\n<p class=\"state {}\">{}</p>\n",
      page.state == ReportPage::running ? kRefresh : "",
      name,
      state_text(page),
      kHead,
      name,
      state_text(page),
      state_text(page));
  if (!page.failure.empty()) out += fmt::format("<pre>{}</pre>\n", svg_text(page.failure));
  out += facts(page) + charts(page) + samples(page) + memory(page);
  if (!page.run.schedule.empty()) {
    out += "<h2>A step, as the schedule orders it</h2>\n<div class=\"scroll\">\n" +
           page.run.schedule + "</div>\n";
  }
  out += "<h2>Configuration</h2>\n<p>A comment says where each value was written.</p>\n";
  return out + fmt::format("<pre>{}</pre>\n</body>\n</html>\n", svg_text(page.run.config));
}

}  // namespace tessera
