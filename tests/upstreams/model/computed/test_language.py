"""Language detection: common words determine a text's language, and unclear texts have none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.model.computed import category_of
from upstreams.model.computed.language import language_and_category, language_of
from upstreams.model.computed.scores import READ_MAX, scores_of, values_of
from upstreams.model.computed.small_words import SMALL_WORDS

ENGLISH = "This is a plain sentence in English about nothing at all"
SENTENCES = {
    "en": "We shipped the new release last night and it broke everything.",
    "es": "Ayer publicamos la nueva versión y no funciona nada, ¿alguien sabe por qué?",
    "pt": "Ontem lançamos a nova versão e não funciona nada, alguém sabe o que fazer?",
    "fr": "Hier nous avons publié la nouvelle version et rien ne marche chez moi.",
    "it": "Ieri abbiamo pubblicato la nuova versione e non funziona più niente.",
    "de": "Gestern haben wir die neue Version veröffentlicht und nichts geht mehr.",
    "nl": "Gisteren hebben we de nieuwe versie uitgebracht en nu werkt er niets meer.",
    "sv": "Igår släppte vi den nya versionen och nu fungerar ingenting längre.",
    "da": "I går udgav vi den nye version, og nu virker der ikke noget mere.",
    "no": "I går lanserte vi den nye versjonen, og nå virker ingenting lenger.",
    "fi": "Eilen julkaisimme uuden version ja nyt mikään ei enää toimi.",
    "pl": "Wczoraj wydaliśmy nową wersję i teraz już nic nie działa.",
    "cs": "Včera jsme vydali novou verzi a teď už nic nefunguje, proč je to tak?",
    "sk": "Včera sme vydali novú verziu a teraz už nič nefunguje, prečo je to tak?",
    "hu": "Tegnap kiadtuk az új verziót, és most már semmi sem működik.",
    "ro": "Ieri am publicat noua versiune și acum nu mai merge nimic.",
    "tr": "Dün yeni sürümü yayınladık ve şimdi hiçbir şey çalışmıyor, neden böyle oldu?",
    "id": "Kemarin kami merilis versi baru dan sekarang tidak ada yang bisa jalan lagi.",
    "vi": "Hôm qua chúng tôi đã phát hành phiên bản mới và bây giờ không gì chạy được.",
    "hr": "Jučer smo objavili novu verziju i sada više ništa ne radi kao što treba.",
    "ca": "Ahir vam publicar la nova versió i ara no funciona res, què podem fer?",
    "et": "Eile avaldasime uue versiooni ja nüüd ei tööta enam midagi.",
    "ru": "Вчера мы выпустили новую версию, и теперь ничего не работает.",
    "uk": "Вчора ми випустили нову версію, і тепер нічого не працює.",
    "bg": "Вчера пуснахме новата версия и сега вече нищо не работи, защо?",
    "sr": "Јуче смо објавили нову верзију и сада више ништа не ради.",
    "el": "Χθες βγάλαμε τη νέα έκδοση και τώρα δεν δουλεύει τίποτα.",
    "he": "אתמול הוצאנו את הגרסה החדשה ועכשיו שום דבר לא עובד.",
    "ar": "أمس أصدرنا النسخة الجديدة والآن لا شيء يعمل على الإطلاق.",
    "fa": "دیروز نسخه جدید را منتشر کردیم و الان هیچ چیز کار نمی کند.",
    "ur": "کل ہم نے نیا ورژن جاری کیا اور اب کچھ بھی کام نہیں کر رہا ہے۔",
    "hi": "कल हमने नया संस्करण जारी किया और अब कुछ भी काम नहीं कर रहा है।",
    "th": "เมื่อวานเราปล่อยเวอร์ชันใหม่และตอนนี้ไม่มีอะไรทำงานเลย",
    "ja": "昨日新しいバージョンを公開しましたが、今は何も動きません。",
    "zh": "昨天我们发布了新版本，现在什么都不能用了。",
    "ko": "어제 새 버전을 출시했는데 이제 아무것도 작동하지 않습니다.",
}


@pytest.mark.parametrize(("tag", "text"), SENTENCES.items())
def test_sentence_language_is_detected(tag: str, text: str) -> None:
    assert language_of(text) == tag


@pytest.mark.parametrize(
    "text",
    ["Turbo Treehouses", "Kirzahk Zurita Bugha", "@ada_example #release", "https://example.com/the/and/with/about", ""],
)
def test_names_urls_and_tags_do_not_count_as_words(text: str) -> None:
    assert language_of(text) is None


def test_language_needs_ten_letters() -> None:
    assert language_of("The and is 123!") is None
    assert language_of("The and is it 123!") == "en"
    assert language_of("H e l l o, w o r l") is None


def test_script_of_most_letters_decides_the_language() -> None:
    assert language_of(f"Привет! {ENGLISH}") == "en"
    assert language_of("今日は良い天気です #weather https://example.com") == "ja"


@pytest.mark.parametrize("char", ["\x00", "\x1b", "\x7f", "\x85", "\ud800", "\ufdd0", "\uffff", "\U0010fffe"])
def test_non_letters_do_not_hide_the_language(char: str) -> None:
    assert language_of(f"{char}{ENGLISH}{char} {ENGLISH}") == "en"


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_text_is_accepted(first: str, second: str) -> None:
    tag = language_of(first + ENGLISH + second)
    assert tag is None or tag.isascii()
    assert category_of(first + second)


def test_text_that_starts_without_a_sentence_is_read_further() -> None:
    addresses = "https://example.com/a/page " * (READ_MAX // 27 + 1)
    assert language_of(addresses + ENGLISH) == "en"
    assert language_of(addresses * 2 + ENGLISH) is None


@given(st.lists(st.sampled_from(["song", "recipe", "python", "and", "AI/ML", "coach,", "Élan"]), max_size=12))
def test_category_does_not_depend_on_the_language(words: list[str]) -> None:
    text = " ".join(words)
    assert language_and_category(text)[1] == category_of(text)


@pytest.mark.parametrize("tag", SMALL_WORDS)
def test_scores_do_not_overflow(tag: str) -> None:
    word = min(SMALL_WORDS[tag].split(), key=len)
    scores, _ = scores_of((f"{word} " * READ_MAX)[:READ_MAX])
    assert max(values_of(scores)) < 2**15
