"""Common small words of languages with Latin, Cyrillic, Arabic or Devanagari letters: the data of `language`.

Nearly every sentence contains some of them: articles, pronouns, prepositions, forms of "to be" and "to have", and words
that are frequent in posts. A word that exists in several languages is listed for each of them.
"""

from __future__ import annotations

from typing import Final

SMALL_WORDS: Final = {
    "en": "the and of to in is it you that was for on are with as his they be at this have from or had by but not what "
    "all were we when your can said there use an each which she do how their if will up other about out many then them "
    "these so some her would make like him into time has look two more go see no way could people my than been who its "
    "now find did get made may over new after our just where most know me your here want why because any good day us i "
    "i'm don't it's can't won't isn't that's you're doesn't didn't let's every always never really today please thanks "
    "thank hello hi great best love happy first last year years week world free with without using should need only "
    "also back still being off does much very too am he she was got going think one something someone anyone everything "
    "nothing while through between under again before must own same few both during against until around down work "
    "working life help watch read check join follow live open big thing things right left better lot little even though "
    "next home old part real show top full long high far let keep try take come came give gave put say says tell call "
    "ask feel become leave seem start run play move believe hold bring happen write sit stand lose pay meet include "
    "learn change lead understand set add code data web app software developer engineer video music game news",
    "es": "el la los las de del que y a en un una unos unas es son ser está están con por para no se su sus lo le les "
    "al como más pero o este esta esto estos estas ese esa eso si ya yo tú él ella nosotros muy sin sobre también me mi "
    "mis te tu tus hay fue era ha han he hasta desde donde cuando porque qué cómo quién todo todos toda todas hoy aquí "
    "ahora así bien mejor gracias hola buenos días noche vida años año día mundo nuestro nuestra entre después antes "
    "siempre nunca nada algo hacer tiene tengo puede mucho mucha vez soy estoy gente desarrollador",
    "pt": "o a os as de do da dos das que e em um uma uns umas é são ser está estão com por para não se seu sua seus "
    "suas no na nos nas ao à às como mais mas ou este esta isto esse essa isso já eu tu ele ela nós você vocês muito sem "
    "sobre também me meu minha te há foi era tem têm até desde onde quando porque quem tudo todos toda hoje aqui agora "
    "assim bem melhor obrigado obrigada olá bom dia noite vida anos ano mundo nosso nossa entre depois antes sempre nunca "
    "nada algo fazer tenho pode pelo pela pra gente vez sou estou ainda só num numa",
    "fr": "le la les de du des que et à en un une est sont être avec par pour ne pas se sa son ses ce cette ces il elle "
    "ils elles nous vous je tu on au aux comme plus mais ou où si qui quoi dans sur sans sous aussi me mon ma mes te ton "
    "ta tes leur leurs y a ai as ont avons avez était été fait faire quand parce tout tous toute toutes aujourd'hui ici "
    "maintenant bien merci bonjour bonsoir jour nuit vie ans année monde notre votre entre après avant toujours jamais "
    "rien c'est j'ai n'est d'un d'une l'on qu'il qu'on très peut peux cela ça donc alors encore même ceci moi toi lui "
    "suis es ceux c j l d n s qu",
    "it": "il lo la i gli le di del della dei degli delle che e è a al alla ai alle in un uno una sono essere con per "
    "non si su sul sulla suo sua suoi come più ma o questo questa questi queste quello quella se io tu lui lei noi voi "
    "loro molto senza anche mi mio mia ti tuo tua ci vi ha hanno ho hai era stato stata fino da dal dalla dove quando "
    "perché chi cosa tutto tutti tutta oggi qui ora così bene meglio grazie ciao buongiorno giorno notte vita anni anno "
    "mondo nostro nostra tra fra dopo prima sempre mai niente fare può nel nella nei c'è dell all un'altra ancora poi",
    "de": "der die das den dem des und in zu ist nicht ein eine einen einem einer eines ich du er sie es wir ihr mit "
    "auf für von im am an als auch so wie bei aus nach um aber oder wenn nur noch sich sind war hat haben habe wird "
    "werden kann können mehr sehr hier was wer wo warum weil dass daß diese dieser dieses mein meine dein sein "
    "seine unser unsere euch uns mir mich dir dich ihm ihn kein keine alle alles man über unter vor durch bis zum zur "
    "vom gegen ohne heute jetzt immer nie schon mal ja nein danke bitte guten morgen tag nacht gut leben jahr jahre "
    "welt neue neuen gibt geht doch dann da etwas nichts viel viele beim ganz wieder hallo zusammen bin bist seit",
    "nl": "de het een en van in is dat op te zijn niet met voor die er aan om als ook maar bij uit dan nog naar of door "
    "over ze hij zij ik je jij u we wij jullie mijn jouw ons onze hun haar deze dit wat wie waar hoe waarom wanneer wel "
    "geen kan kunnen zal zullen wordt worden was waren heeft hebben had heb meer zeer heel veel al alle alles iets niets "
    "nu vandaag altijd nooit hier daar toch goed dank bedankt hallo dag nacht leven jaar wereld nieuwe tot onder tegen "
    "zonder tussen na voordat omdat moet mag gaan gaat doen doet zo mij hem ben bent want",
    "sv": "och i att det som en ett på är av för med till den inte har de om var jag du han hon vi ni man sig från men så "
    "kan ska skulle när nu här där hur vad vem varför mer mycket alla allt någon något ingen inget min mitt mina din "
    "ditt sin sitt vår vårt er deras denna detta dessa efter innan utan mellan under över mot genom vid eller också bara "
    "bli blir blev vara varit hade hej tack idag alltid aldrig bra god dag natt liv år världen nya får gör göra finns än "
    "då eftersom oss mig dig honom henne",
    "da": "og i at det som en et på er af for med til den ikke har de om var jeg du han hun vi man sig fra men så kan "
    "skal skulle når nu her der hvor hvad hvem hvorfor mere meget alle alt nogen noget ingen intet min mit mine din dit "
    "sin sit vores jeres deres denne dette disse efter før uden mellem under over gennem ved eller også kun blive "
    "bliver blev være været havde hej tak dag altid aldrig godt god nat liv år verden nye får gør gøre findes da "
    "fordi os mig dig ham hende af ud ind bare lige hvordan nogle",
    "no": "og i at det som en et på er av for med til den ikke har de om var jeg du han hun vi man seg fra men så kan "
    "skal skulle når nå her der hvor hva hvem hvorfor mer mye alle alt noen noe ingen ingenting min mitt mine din ditt "
    "sin sitt vår vårt deres denne dette disse etter før uten mellom under over mot gjennom ved eller også bare bli blir "
    "ble være vært hadde hei takk dag alltid aldri bra god natt liv år verden nye får gjør gjøre finnes enn da fordi oss "
    "meg deg ham henne ut inn hvordan veldig",
    "fi": "ja on ei että se oli hän ovat mutta kun niin kuin joka jos myös tai sen olen olet olemme ole mitä mikä kuka "
    "missä miksi miten minä sinä me te he minun sinun hänen meidän tämä tämän nämä tuo ne siitä kanssa ennen jälkeen nyt "
    "täällä siellä kaikki kaikkien mitään jotain aina koskaan hyvä hyvää kiitos hei päivä yö elämä vuosi vuotta maailma "
    "uusi vain vielä enemmän paljon voi voin pitää ollut sitten jo koska kuten sekä",
    "pl": "i w na z do nie się to jest że o jak ale po co tak za od ma już być był była było są czy dla przez przy tylko "
    "bardzo gdy kiedy gdzie kto dlaczego ponieważ który która które których tego tym ten ta te jego jej ich mnie mi mój "
    "moja moje ty twój my nasz nas was pan pani jestem jesteś mam masz może można więcej wszystko wszyscy nic coś zawsze "
    "nigdy dziś dzisiaj teraz tutaj tu tam dobry dobrze dzień noc życie rok lat świat nowy nowe dziękuję dzięki cześć "
    "przed pod nad między bez lub oraz także jeszcze sobie ze we",
    "cs": "a v na se je že o jak ale po co tak za od z do má už být byl byla bylo jsou jsem jsi jsme pro při jen velmi "
    "když kde kdo proč protože který která které kterou toho tím ten ta to jeho její jejich mě mi můj moje ty tvůj my náš "
    "nás vás mám máš může můžete více všechno všichni nic něco vždy nikdy dnes teď tady tam dobrý dobře den noc život rok "
    "let svět nový nové děkuji díky ahoj před pod nad mezi bez nebo také ještě si ve s k i aby ani není podle",
    "sk": "a v na sa je že o ako ale po čo tak za od z do má už byť bol bola bolo sú som si sme pre pri len veľmi keď kde "
    "kto prečo pretože ktorý ktorá ktoré toho tým ten tá to jeho jej ich ma mi môj moje ty tvoj my náš nás vás mám máš "
    "môže viac všetko všetci nič niečo vždy nikdy dnes teraz tu tam dobrý dobre deň noc život rok rokov svet nový nové "
    "ďakujem ahoj pred pod nad medzi bez alebo tiež ešte vo s k i aby ani nie je podľa",
    "hu": "a az és hogy nem is egy ez azt van volt de ha meg csak már még mint vagy mert ki mi mit hol miért amikor ami "
    "aki én te ő mi ti ők engem téged nekem neki ezt ezek azok lesz lehet lenne nagyon minden mindig soha most ma itt ott "
    "jó jól köszönöm szia nap éjszaka élet év világ új között alatt előtt után nélkül kell vannak voltak vele erre arra "
    "ilyen olyan így úgy pedig akkor sok több magyar",
    "ro": "de și si în in la cu pe nu că ca este sunt e a o un din pentru mai sau dar când unde cine ce cum de ce prin "
    "după fără între peste este era fost fi am ai are avem aveți au eu tu el ea noi voi ei ele meu mea tău ta său sa "
    "nostru lui lor acest această aceasta aceste acel foarte tot toate toți nimic ceva mereu niciodată azi acum aici "
    "acolo bine bun bună mulțumesc zi noapte viață an ani lume nou noi poate trebuie doar încă al ale",
    "tr": "ve bir bu da de için ile o ne çok gibi daha var yok mi mı mu mü ben sen biz siz onlar beni seni bana sana benim "
    "senin bizim onun olan olarak oldu olduğu olur değil ama veya ya en kadar sonra önce her hiç şey bütün tüm şimdi "
    "bugün burada orada neden nasıl kim nerede zaman iyi güzel teşekkürler merhaba gün gece hayat yıl dünya yeni ki "
    "diye göre üzerinde içinde arasında ise eğer çünkü ancak artık bile sadece",
    "id": "yang dan di ini itu dengan untuk tidak dari dalam akan pada juga saya ke karena tersebut bisa ada mereka lebih "
    "kata tahun sudah atau saat oleh menjadi orang ia telah adalah seperti kami kita kamu anda aku dia sebagai bahwa hari "
    "dapat banyak semua masih belum bukan jadi lagi agar hanya apa siapa mana kenapa bagaimana sangat baik terima kasih "
    "selamat pagi malam hidup dunia baru setelah sebelum antara tanpa secara yg nggak tak gak sama buat satu dua pun",
    "vi": "và của là có không được cho các một những trong với này đã người để khi cũng như tôi bạn anh em chúng ta nó "
    "họ về từ đến ở ra vào lên rất nhiều nhưng hay hoặc vì nếu thì mà gì ai đâu sao nào ngày đêm cuộc sống năm thế giới "
    "mới cảm ơn xin chào tốt đang sẽ hơn nhất sau trước giữa làm việc đi lại còn chỉ",
    "hr": "i u je na se da za su od s o a kao što ne ali ili iz do po sa koji koja koje kad kada gdje gde tko ko zašto "
    "jer bio bila bilo biti sam si smo ste nije nisu ovo ova ovaj to taj ta ja ti on ona mi vi oni moj moja tvoj naš svoj "
    "više sve svi ništa nešto uvijek uvek nikad danas sada ovdje tamo dobar dobro dan noć život godina godine svijet novi "
    "hvala bok zdravo pred pod nad između bez također još samo može vrlo ima nema",
    "ca": "el la els les de del dels que i a en un una uns unes és són ser està amb per no es seu seva al als com més "
    "però o aquest aquesta això aquests si ja jo tu ell ella nosaltres molt sense sobre també em meu meva et hi ha va van "
    "fins des on quan perquè què qui tot tots tota avui aquí ara així bé millor gràcies hola bon dia nit vida anys any "
    "món nostre nostra entre després abans sempre mai res fer té pot amb cap seva pels d'un l'any",
    "lt": "ir yra kad su į iš tai ne kaip bet per už po prie ar jis ji jie mes jūs aš tu mano tavo jo jos jų buvo būti "
    "kas kur kada kodėl labai daug visi viskas nieko niekada visada šiandien dabar čia ten gera gerai diena naktis "
    "gyvenimas metai metų pasaulis naujas ačiū labas tik dar jau arba taip pat nuo iki apie tarp be šis ši",
    "lv": "un ir ka ar no uz par tas tā ne kā bet pie vai viņš viņa viņi mēs jūs es tu mans tavs bija būt kas kur kad "
    "kāpēc ļoti daudz visi viss nekas nekad vienmēr šodien tagad šeit tur labs labi diena nakts dzīve gads gadi pasaule "
    "jauns paldies sveiki tikai vēl jau arī līdz starp bez šis šī lai savu gan pēc",
    "et": "ja on ei et see oli ta nad aga kui nii nagu mis kes kus millal miks mina sina meie teie minu sinu tema oma "
    "selle seda need väga palju kõik midagi mitte alati kunagi täna nüüd siin seal hea hästi tänan aitäh tere päev öö elu "
    "aasta aastat maailm uus ainult veel juba või ka enne pärast vahel ilma saab oleme olen olid ning kuid",
    "tl": "ang ng sa mga na at ay si ni kay ko mo niya namin natin nila ako ikaw siya kami tayo kayo sila ito iyan iyon "
    "hindi oo wala may mayroon para kung dahil pero o kasi lang din rin naman ba po pa nang ano sino saan kailan bakit "
    "paano lahat araw gabi buhay taon mundo bago salamat kamusta magandang dito doon ngayon yung",
    "sw": "na ya wa kwa ni katika za la cha vya hii hiyo huu huyo kama lakini au si sana watu mtu siku usiku maisha mwaka "
    "dunia mpya asante habari leo sasa hapa pale kila yote wote mimi wewe yeye sisi ninyi wao yangu yako yake yetu kuwa "
    "alikuwa ana wana kwamba bila baada kabla nchi",
    "eu": "eta da ez bat du dira zen ere baina izan egin dute hau hori nire zure gure bere oso asko guztiak gaur orain "
    "hemen han ongi eskerrik asko kaixo egun gau bizitza urte mundu berri baino edo zer nor non noiz zergatik nola",
    "eo": "la kaj de en estas ne mi vi li ŝi ĝi ni ili tio tiu ĉi por kun sed aŭ kiel kio kiu kie kial kiam tre multe "
    "ĉiuj ĉio nenio hodiaŭ nun tie bona bone dankon saluton tago nokto vivo jaro mondo nova post antaŭ inter sen al el "
    "da pri ke se jam ankaŭ nur pli",
    "is": "og að er í á sem það ekki með til um við var fyrir en af eru því frá ég þú hann hún þeir þetta þessi hvað hver "
    "hvar hvenær mjög allt allir ekkert aldrei alltaf núna hér þar góðan gott dagur nótt líf ár heimur nýtt takk halló "
    "bara enn líka eða eftir áður milli án hefur hafa verið vera",
    "ga": "agus an na is ar ag le do go sa bhí tá níl mé tú sé sí sinn sibh siad mo ár bhur seo sin cad cé cá conas nó "
    "ach mar gach uile lá oíche saol bliain domhan nua maith slán dia duit",
    "sq": "dhe i e të në një është për me që nuk si nga u ka kam jam janë ishte do se kur ku kush çfarë pse shumë gjithë "
    "asgjë sot tani këtu atje mirë ditë natë jetë vit botë ri faleminderit por ose mund pas para midis pa kjo ky këtë",
    "af": "die en van in is dat op te nie met vir wat aan om as ook maar by uit dan nog na of deur oor hulle hy sy ek jy "
    "ons my jou hierdie dit wie waar hoe hoekom was het sal kan meer baie alles niks nou vandag altyd nooit hier daar goed "
    "dankie hallo dag nag lewe jaar wêreld nuwe tot teen sonder tussen moet mag gaan doen so hom ’n",
    "cy": "y yr a yn i o ar mae ac ei ni eu am gan wedi oedd roedd bod ond fel hyn hwn hon beth pwy ble pam sut iawn "
    "popeth dim heddiw nawr yma da diolch bore dydd nos bywyd blwyddyn byd newydd neu rhwng heb sydd",
    "ht": "mwen ou li nou yo ap te pa ki sa ak nan pou gen yon se men tout kote kijan poukisa jodi mesi bonjou lavi ane "
    "moun",
    "ru": "и в не на я что он с как а то все она так его но да ты к у же вы за бы по только ее мне было вот от меня еще "
    "нет о из ему теперь когда даже ну если уже или ни быть был него до вас опять вам ведь там потом себя ничего ей может "
    "они тут где есть надо ней для мы тебя их чем была сам чтоб без будто чего раз тоже себе под будет этот это эта эти "
    "кто почему потому очень сегодня сейчас всегда никогда спасибо привет день ночь жизнь год лет мир новый",
    "bg": "и в не на аз що той с как а то всички тя така но да ти към у вие за би по само ме беше ето от мен още са е съм "
    "сме сте се че ще си из когато дори ако вече или нито бъде него до вас там после нищо може те тук къде има трябва за "
    "ние кой защо защото много днес сега винаги никога благодаря здравей ден нощ живот година света нов това този тази "
    "тези като при без със във",
    "uk": "і в не на я що він з як а то все вона так його але та ти до у ж ви за б по тільки її мені було від мене ще ні "
    "про із йому тепер коли навіть якщо вже або бути був для ми тебе їх чим була сам без чого теж собі під буде цей це ця "
    "ці хто чому дуже сьогодні зараз завжди ніколи дякую привіт день ніч життя рік світ новий є",
    "sr": "и у је на се да за су од с о а као што не али или из до по са који која које кад када где ко зашто јер био "
    "била бити сам си смо сте није нису ово ја ти он она ми ви они више све ништа увек никад данас сада овде добро хвала",
    "mk": "и во не на јас што тој со како а таа така но да ти кон вие за само ме беше од уште се е сум ќе си кога дури "
    "ако веќе или може тие тука каде има многу денес сега секогаш благодарам здраво ден ноќ живот година свет нов ова овој",
    "fa": "و در به از که این را با است برای آن یک خود تا بر هم می نیز ها های شد شده کرد من تو او ما شما آنها اما یا اگر هر "
    "همه چه چرا کجا خیلی امروز الان سلام ممنون روز شب زندگی سال جهان نیست بود",
    "ar": "في من على إلى أن هذا هذه التي الذي عن مع كان ما لا هو هي أو كل بعد قبل بين عند قد لم إن ثم حتى أنا أنت نحن هم "
    "ولا يا لقد اليوم الآن شكرا مرحبا يوم حياة سنة العالم جدا كيف لماذا أين متى ليس إذا غير",
    "ur": "اور کے کی میں سے ہے کا کو نے پر یہ کہ بھی ایک ہیں اس نہیں تو ہو تھا تھی تھے کر جو وہ آپ ہم مجھے کیا کیوں کہاں "
    "بہت آج اب شکریہ دن رات زندگی سال دنیا نیا",
    "hi": "के है में की से को का और पर यह कि भी एक हैं इस नहीं तो हो था थी थे कर जो वह आप हम मुझे क्या क्यों कहाँ बहुत आज अब "
    "धन्यवाद दिन रात जीवन साल दुनिया नया ने लिए अपने मैं",
    "mr": "आहे आणि च्या ते हे मी तो ती या की पण नाही होते होता होती आहेत करून तर साठी मध्ये आम्ही तुम्ही काय का कुठे खूप आज आता "
    "धन्यवाद दिवस रात्र वर्ष जग नवीन",
    "ne": "छ र को मा हो लागि छन् गर्न पनि यो म तपाईं हामी के किन कहाँ धेरै आज अहिले धन्यवाद दिन रात वर्ष नयाँ थियो भएको गरेको छैन",
}
