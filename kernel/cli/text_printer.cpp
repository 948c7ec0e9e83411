#include "kernel/cli/text_printer.hpp"

#include <cstdio>
#include <string>

#include "kernel/cli/show.hpp"

namespace tessera {

namespace {

// One object for programs.
void print_json(const GrowingText& text) {
  Json json;
  json.add("prompt", text.prompt()).add("text", text.text());
  json.add("tokens", ids_json(text.added()));
  json.add("end", name_of(text.end()));
  print_now(json.text() + "\n");
}

}  // namespace

void print_now(std::string_view bytes) {
  show_exact(bytes);
  std::fflush(stdout);
}

Json ids_json(const std::vector<i32>& ids) {
  return Json::array(ids, [](i32 id) { return Json(i64{id}); });
}

TextPrinter::TextPrinter(const std::vector<GrowingText>& texts, bool json)
    : texts_(texts), json_(json) {
  if (streams()) print_now(texts_[0].prompt());
}

TextEvents TextPrinter::events() {
  TextEvents events;
  if (streams()) events.grown = [this](std::size_t) { print_new(); };
  events.over = [this](std::size_t) { print_complete(); };
  return events;
}

void TextPrinter::print_new() {
  const std::string_view text = texts_[0].text();
  if (text.size() <= printed_) return;
  print_now(text.substr(printed_));
  printed_ = text.size();
}

void TextPrinter::print_complete() {
  for (; next_ < texts_.size() && texts_[next_].over(); ++next_) {
    const GrowingText& text = texts_[next_];
    if (json_) {
      print_json(text);
    } else if (streams()) {
      print_new();
      print_now("\n");
    } else {
      print_now(text.prompt() + std::string(text.text()) + "\n");
    }
  }
}

}  // namespace tessera
