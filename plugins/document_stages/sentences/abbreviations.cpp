#include "abbreviations.hpp"

#include <algorithm>
#include <array>

#include "tessera/io/utf8.hpp"

namespace tessera {
namespace {

// They stand before a name or the rest of a sentence.
constexpr auto kPart = std::to_array<std::string_view>(
    {"mr",   "mrs",    "ms",   "messrs", "mme", "mlle", "dr",  "drs", "prof", "rev",
     "hon",  "st",     "ste",  "mt",     "ft",  "gen",  "col", "maj", "capt", "cpt",
     "lt",   "sgt",    "cpl",  "pvt",    "adm", "cmdr", "gov", "sen", "rep",  "pres",
     "supt", "insp",   "fr",   "e.g",    "eg",  "i.e",  "ie",  "cf",  "vs",   "v",
     "viz",  "approx", "resp", "ed",     "eds", "z.b",  "d.h", "bzw", "bspw", "vgl"});

// They belong to a number that follows. Without one some are words like others.
constexpr auto kOfNumber = std::to_array<std::string_view>(
    {"fig", "figs", "eq",  "eqs", "ref", "refs", "sec",  "secs", "sect", "ch", "chap",
     "vol", "vols", "nos", "nr",  "pp",  "p",    "pg",   "pt",   "ca",   "c",  "jan",
     "feb", "apr",  "jun", "jul", "aug", "sep",  "sept", "oct",  "nov",  "dec"});
constexpr auto kOfNumberOrWord = std::to_array<std::string_view>({"no", "art", "mar", "op"});

// They end a sentence as often as not.
constexpr auto kUnclear = std::to_array<std::string_view>(
    {"etc", "inc",  "ltd",  "co", "corp", "llc",  "plc",  "bros", "jr",   "sr",
     "esq", "ph.d", "phd",  "al", "dept", "univ", "assn", "ave",  "blvd", "rd",
     "hwy", "hrs",  "mins", "lb", "lbs",  "oz",   "cit",  "ibid", "usw"});

constexpr auto kBegin = std::to_array<std::string_view>(
    {"The",  "This",  "That",   "These",  "Those", "There",   "Then",     "They",  "A",
     "An",   "And",   "But",    "Or",     "So",    "It",      "Its",      "In",    "On",
     "At",   "As",    "After",  "Before", "By",    "For",     "From",     "He",    "She",
     "His",  "Her",   "Him",    "I",      "If",    "We",      "Our",      "You",   "Your",
     "My",   "When",  "While",  "Where",  "What",  "Who",     "Why",      "How",   "With",
     "Some", "Many",  "Most",   "One",    "Two",   "However", "Although", "Since", "Because",
     "Also", "Under", "During", "To",     "No",    "Not",     "All",      "Both",  "Their"});

std::string lowered(std::string_view word) {
  std::string out(word);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

bool is_letter(std::string_view character) {
  const char c = character[0];
  return character.size() > 1 || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// Letters with full stops between: "J", "U.S", "a.m".
bool are_initials(std::string_view word) {
  for (bool letter = true; !word.empty(); letter = !letter) {
    const std::string_view first = next_character(word);
    if (letter ? !is_letter(first) : first != ".") return false;
    word.remove_prefix(first.size());
    if (word.empty()) return letter;
  }
  return false;
}

}  // namespace

Abbreviations::Abbreviations(const std::vector<std::string>& more) {
  const auto add = [](const auto& list, std::unordered_set<std::string>& to) {
    for (const std::string_view word : list) to.emplace(word);
  };
  add(kPart, part_);
  add(kOfNumber, of_number_);
  add(kOfNumberOrWord, of_number_);
  add(kUnclear, unclear_);
  add(kOfNumber, unclear_);
  for (const std::string& each : more) {
    std::string word = lowered(each);
    if (word.ends_with('.')) word.pop_back();
    part_.insert(std::move(word));
  }
}

StopMeaning Abbreviations::of(std::string_view word, bool number_follows) const {
  const std::string small = lowered(word);
  if (part_.contains(small)) return StopMeaning::part;
  if (number_follows && of_number_.contains(small)) return StopMeaning::part;
  return unclear_.contains(small) || are_initials(word) ? StopMeaning::unclear : StopMeaning::end;
}

bool often_begins(std::string_view word) { return std::ranges::find(kBegin, word) != kBegin.end(); }

}  // namespace tessera
