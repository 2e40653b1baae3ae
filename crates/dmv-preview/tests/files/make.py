"""The part of make.sh that needs a program: archives, Blender files, RAW files, a font."""
import gzip, struct, subprocess, zipfile
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

base = open("base.png", "rb").read()
jpeg = open("plain.jpg", "rb").read()
rgba = subprocess.check_output(["convert", "base.png", "-depth", "8", "RGBA:-"])
W, H = 24, 17
for name, method in (("packed.kra", zipfile.ZIP_DEFLATED), ("stored.ora", zipfile.ZIP_STORED)):
    with zipfile.ZipFile(name, "w", method) as z:
        z.writestr(zipfile.ZipInfo("mimetype"), "application/x-krita")
        info = zipfile.ZipInfo("mergedimage.png"); info.compress_type = method
        z.writestr(info, base)

rows = [rgba[y * W * 4:(y + 1) * W * 4] for y in range(H)]
test = struct.pack("<II", W, H) + b"".join(reversed(rows))
old = b"BLENDER-v306" + b"REND" + struct.pack("<IQII", 8, 1, 0, 1) + bytes(8)
old += b"TEST" + struct.pack("<IQII", len(test), 2, 0, 1) + test + b"ENDB" + struct.pack("<IQII", 0, 0, 0, 0)
new = b"BLENDER17-01v0500" + b"TEST" + struct.pack("<IQqq", 0, 2, len(test), 1) + test
open("plain.blend", "wb").write(old)
open("five.blend", "wb").write(new)
open("gzip.blend", "wb").write(gzip.compress(old, mtime=0))
open("zstd.blend", "wb").write(subprocess.run(["zstd", "-c"], input=old, capture_output=True, check=True).stdout)

# A RAW file: a table with the camera, one below it with the sensor's data (no picture), one with a JPEG.
def table(entries, after=0):
    out = struct.pack("<H", len(entries))
    for tag, kind, count, value in entries:
        out += struct.pack("<HHI", tag, kind, count) + (value if isinstance(value, bytes) else struct.pack("<I", value))
    return out + struct.pack("<I", after)
make, model = b"DMV Cameras\0", b"DMV Cameras R1\0\0"
first = 8 + len(make) + len(model)
subs = first + 2 + 5 * 12 + 4
sensor_at = subs + 8
sensor = table([(0x103, 3, 1, 7), (0x111, 4, 1, 8), (0x117, 4, 1, 4000)])
jpeg_at = sensor_at + len(sensor)
picture_len = 2 + 3 * 12 + 4
picture = table([(0x103, 3, 1, 6), (0x201, 4, 1, jpeg_at + picture_len), (0x202, 4, 1, len(jpeg))])
head = b"II*\0" + struct.pack("<I", first) + make + model
head += table([(0x10f, 2, len(make), 8), (0x110, 2, len(model) - 1, 8 + len(make)), (0x112, 3, 1, 8),
               (0x14a, 4, 2, subs), (0xc612, 1, 4, bytes([1, 4, 0, 0]))])
head += struct.pack("<II", sensor_at, jpeg_at) + sensor + picture + jpeg + bytes(4000)
open("camera.dng", "wb").write(head)
raf = (b"FUJIFILMCCD-RAW 0201FF389501DMV".ljust(84, b"\0") + struct.pack(">II", 100, len(jpeg))).ljust(100, b"\0")
open("camera.raf", "wb").write(raf + jpeg)

letters = "Hamburgefonstiv 123"
names = [".notdef"] + [f"u{ord(c):04X}" for c in sorted(set(letters))]
font = FontBuilder(1000, isTTF=True)
font.setupGlyphOrder(names)
font.setupCharacterMap({ord(c): f"u{ord(c):04X}" for c in letters})
glyphs = {}
for i, name in enumerate(names):
    pen = TTGlyphPen(None)
    if name != "u0020":
        pen.moveTo((50, 0)); pen.lineTo((450, 0)); pen.qCurveTo((500 + i * 5, 400), (250, 700)); pen.closePath()
    glyphs[name] = pen.glyph()
font.setupGlyf(glyphs)
font.setupHorizontalMetrics({name: (500, 50) for name in names})
font.setupHorizontalHeader(ascent=800, descent=-200)
font.setupNameTable({"familyName": "DMV Test", "styleName": "Regular"})
font.setupOS2(); font.setupPost()
font.font["head"].created = font.font["head"].modified = 0
font.font.recalcTimestamp = False
font.save("plain.ttf")
